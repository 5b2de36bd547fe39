"""Goes on with a stream that was interrupted, for whoever may: see docs/resume.md."""

import asyncio
import json

from gateway.bill import Admission, Opened
from gateway.errors import Refusal
from gateway.heads import Head
from gateway.kept import Taken
from gateway.office import Office
from gateway.relay import Generation, Wanted
from gateway.reply import Reply, Request
from gateway.seal import SENTENCES, STATUSES, NotGood, Why
from gateway.snapshot import Snapshot
from gateway.stream import Stream
from gateway.wish import Wish

TOO_FAR_BACK = "events after this id were sent, and they cannot be made again"

BUSY = Refusal(409, "it is still being answered", retry_after=1, code="busy")
BOOKING_SECONDS = (0.05, 0.1, 0.2, 0.4)


class TakingUp:
    """Belongs to the office's loop."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def run(
        self, wanted: Wish | NotGood, request: Request, caller: str, reply: Reply
    ) -> None:
        """Answer a request that wants to go on with another one."""
        taken = wanted if isinstance(wanted, NotGood) else await self._take(wanted, caller)
        if isinstance(taken, NotGood):
            if isinstance(wanted, Wish) and await self._is_in_hand(wanted, taken, caller):
                self._refuse(reply, BUSY)
                return
            self._refuse(reply, Refusal(STATUSES[taken.why], SENTENCES[taken.why], code=taken.why))
            return
        snapshot: Snapshot = json.loads(taken.snapshot)
        last = wanted.last if isinstance(wanted, Wish) else None
        # Where the client was told that it is cut off, the last number is that frame's, which holds
        # nothing of the answer.
        told = wanted.token is not None if isinstance(wanted, Wish) else False
        first = snapshot["seq"] - 1 if told else snapshot["seq"]
        if last is not None and not first <= last.number <= snapshot["seq"]:
            await self._office.shelf.give_back(taken, caller)
            self._refuse(reply, Refusal(410, TOO_FAR_BACK, code="too_far_back"))
            return
        if last is not None:
            snapshot["seq"] = last.number
        await self._go_on(taken, snapshot, request, caller, reply)

    async def _take(self, wanted: Wish, caller: str) -> Taken | NotGood:
        if wanted.token is not None:
            return await self._office.shelf.take(wanted.token, caller)
        assert wanted.last is not None  # noqa: S101 -- one of the two is there
        return await self._office.shelf.take_request(wanted.last.request_id, caller)

    async def _is_in_hand(self, wanted: Wish, why: NotGood, caller: str) -> bool:
        """Whether it will be kept when its gateway knows that its connection is broken."""
        if wanted.last is None or why.why is not Why.NOT_KEPT:
            return False
        return await self._office.bill.is_in_hand(caller, wanted.last.request_id)

    async def _go_on(
        self, taken: Taken, snapshot: Snapshot, request: Request, caller: str, reply: Reply
    ) -> None:
        office = self._office
        stream = Stream.restore(snapshot)
        asked = stream.ask
        opened = Opened(
            stream.request_id, caller, stream.request_id, asked.model, asked.route, office.wall()
        )
        if not await self._is_reopened(opened):
            await office.shelf.give_back(taken, caller)
            self._refuse(reply, BUSY)
            return
        head = Head("POST", asked.route, request.headers, stream.request_id)
        generation = Generation(office, Wanted(stream, head, caller, None, taken), reply)
        await generation.run()

    async def _is_reopened(self, opened: Opened) -> bool:
        """Whether it is ours; a gateway that has just cut it needs a moment to book that."""
        for patience in (*BOOKING_SECONDS, None):
            if await self._office.bill.reopen(opened) is Admission.NEW:
                return True
            if patience is not None:
                await asyncio.sleep(patience)
        return False

    def _refuse(self, reply: Reply, refusal: Refusal) -> None:
        self._office.counts.refused(str(refusal.status))
        reply.send(refusal.status, refusal.headers, refusal.body)
