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
from gateway.seal import SENTENCES, STATUSES, NotGood, Why
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
            if isinstance(wanted, Wish) and await self._is_in_hand(wanted, taken, caller):
                self._refuse(reply, BUSY)
                return
            why = await self._why(wanted, taken, caller)
            self._refuse(reply, Refusal(STATUSES[why], SENTENCES[why], code=why))
            return
        snapshot: Snapshot = json.loads(taken.snapshot)
        last = wanted.last if isinstance(wanted, Wish) else None
        try:
            stream = restored(snapshot, None if last is None else last.number)
        except NotAPlaceError as error:
            await self._office.shelf.give_back(taken, caller)
            self._refuse(reply, _no_place(error))
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
            self._refuse(reply, _no_place(error))
            return True
        if last.request_id in office.in_flight:
            self._refuse(reply, BUSY)
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

    async def _is_in_hand(self, wanted: Wish, why: NotGood, caller: str) -> bool:
        """Whether it will be kept when its gateway knows that its connection is broken."""
        if wanted.last is None or why.why not in NOT_THERE:
            return False
        if wanted.token is not None and why.why is Why.SPENT:
            return False  # whoever has it in hand has it from this token
        if why.why is Why.SPENT:
            # Whoever took it up a moment ago needs another to have it in hand, or to let go of it.
            await asyncio.sleep(sum(BOOKING_SECONDS))
        return await self._office.bill.is_in_hand(caller, wanted.last.request_id)

    async def _why(self, wanted: Wish | NotGood, taken: NotGood, caller: str) -> Why:
        """Why nobody can go on: one that was taken up may have come to its end since."""
        if taken.why is not Why.SPENT or isinstance(wanted, NotGood) or wanted.last is None:
            return taken.why
        stage = await self._office.bill.stage(caller, wanted.last.request_id)
        return Why.NOT_KEPT if stage is End.COMPLETE and wanted.token is None else taken.why

    async def _go_on(self, wanted: Wanted, taken: Taken, reply: Reply) -> None:
        stream, caller = wanted.stream, wanted.caller
        asked, name = stream.ask, stream.request_id
        opened = Opened(name, caller, name, asked.model, asked.route, self._office.wall())
        if await let_in(self._office.bill.reopen, opened) is not Admission.NEW:
            await self._office.shelf.give_back(taken, caller)
            self._refuse(reply, BUSY)
            return
        await Generation(self._office, wanted, reply).run()

    def _refuse(self, reply: Reply, refusal: Refusal) -> None:
        self._office.counts.refused(str(refusal.status))
        reply.send(refusal.status, refusal.headers, refusal.body)


def _no_place(error: NotAPlaceError) -> Refusal:
    code = "too_far_back" if error.known else "malformed"
    return Refusal(410 if error.known else 400, error.why, code=code)
