"""Goes on with a stream that was interrupted, for whoever may: see docs/resume.md."""

import asyncio
import json

from gateway.bill import Admission, End, Opened
from gateway.carried import restored
from gateway.errors import Refusal
from gateway.heads import Head
from gateway.kept import Taken
from gateway.letting_in import BOOKING_SECONDS, let_in
from gateway.office import Office
from gateway.relay import Generation, Wanted
from gateway.reply import Reply, Request
from gateway.retelling import Retelling
from gateway.seal import NotGood, Why
from gateway.snapshot import NotAPlaceError, Snapshot
from gateway.wish import Last, Wish

BUSY = Refusal(409, "it is still being answered", retry_after=1, code="busy")
NOT_THERE = (Why.NOT_KEPT, Why.SPENT)


class TakingUp:
    """Belongs to the office's loop."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def run(
        self, wanted: Wish | NotGood, request: Request, caller: str, reply: Reply
    ) -> None:
        """Answer a request that wants to go on with another one."""
        if isinstance(wanted, Wish) and await self.retell(wanted.last, caller, reply):
            return
        taken = wanted if isinstance(wanted, NotGood) else await self._take(wanted, caller)
        if isinstance(taken, NotGood):
            self._office.refuse(reply, await self._refusal(wanted, taken, caller))
            return
        snapshot: Snapshot = json.loads(taken.snapshot)
        last = wanted.last if isinstance(wanted, Wish) else None
        try:
            stream = restored(snapshot, None if last is None else last.number)
        except NotAPlaceError as error:
            await self._office.shelf.give_back(taken, caller)
            self._office.refuse(reply, _no_place(error))
            return
        head = Head("POST", stream.ask.route, request.headers, stream.request_id)
        again = len(snapshot["delivered"]) - len(stream.delivered)
        await self._go_on(Wanted(stream, head, caller, None, taken, again), taken, reply)

    async def retell(self, last: Last | None, caller: str, reply: Reply) -> bool:
        """Give the end of an answer that came to it here a moment ago; tells whether it was given.

        Nothing is said to whoever has all of it.
        """
        office = self._office
        if last is None:
            return False
        found = office.finished.find(caller, last.request_id, office.now())
        if found is None or last.number == found.last:
            return False
        try:
            pieces = found.after(last.number)
        except NotAPlaceError as error:
            self._office.refuse(reply, _no_place(error))
            return True
        if last.request_id in office.in_flight:
            self._office.refuse(reply, BUSY)
        else:
            await Retelling(office, last.request_id, caller, pieces, reply).run()
        return True

    async def _take(self, wanted: Wish, caller: str) -> Taken | NotGood:
        """Take it up, though its gateway were killed a moment ago."""
        taken = await self._take_kept(wanted, caller)
        gone = isinstance(taken, NotGood) and taken.why in NOT_THERE
        if gone and await self._office.bill.look():
            taken = await self._take_kept(wanted, caller)
        return taken

    async def _take_kept(self, wanted: Wish, caller: str) -> Taken | NotGood:
        if wanted.token is not None:
            return await self._office.shelf.take(wanted.token, caller)
        assert wanted.last is not None  # noqa: S101 -- one of the two is there
        return await self._office.shelf.take_request(wanted.last.request_id, caller)

    async def _refusal(self, wanted: Wish | NotGood, taken: NotGood, caller: str) -> Refusal:
        """Why nobody can go on: another one may have it in hand, or have come to its end since."""
        stage = await self._stage(wanted, taken.why, caller)
        if stage is Admission.BUSY:
            return BUSY
        if taken.why is Why.SPENT and stage is End.COMPLETE:
            return NotGood(Why.NOT_KEPT).refusal
        return taken.refusal

    async def _stage(self, wanted: Wish | NotGood, why: Why, caller: str) -> End | Admission | None:
        """How far it is, where it may be kept when its gateway knows that its connection is broken.

        None where that is of no interest.
        """
        if isinstance(wanted, NotGood) or wanted.last is None or why not in NOT_THERE:
            return None
        if why is Why.SPENT:
            if wanted.token is not None:
                return None  # whoever has it in hand has it from this token
            # Whoever took it up a moment ago needs another to have it in hand, or to let go of it.
            await asyncio.sleep(sum(BOOKING_SECONDS))
        return await self._office.bill.stage(caller, wanted.last.request_id)

    async def _go_on(self, wanted: Wanted, taken: Taken, reply: Reply) -> None:
        stream, caller = wanted.stream, wanted.caller
        asked, name = stream.ask, stream.request_id
        opened = Opened(name, caller, name, asked.model, asked.route, self._office.wall())
        if await let_in(self._office.bill.reopen, opened) is not Admission.NEW:
            await self._office.shelf.give_back(taken, caller)
            self._office.refuse(reply, BUSY)
            return
        await Generation(self._office, wanted, reply).run()


def _no_place(error: NotAPlaceError) -> Refusal:
    code = "too_far_back" if error.known else "malformed"
    return Refusal(410 if error.known else 400, error.why, code=code)
