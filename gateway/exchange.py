"""One leg of a generation: what one backend is asked for, and what came of it."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from gateway.bill import BillError
from gateway.office import Office
from gateway.outcome import How, Outcome
from gateway.parting import OK
from gateway.quick import Quick
from gateway.reply import Connection
from gateway.standing import Standing
from gateway.step import State, Step
from gateway.stream import Stream
from gateway.upstream import Leg, UpstreamError

LARGEST_REFUSAL = 64 * 1024


class Recipient(Protocol):
    """Whoever the answer is for."""

    @property
    def connection(self) -> Connection | None:
        """Where whole chunks of the client's answer can go as they are; None where they cannot."""
        ...

    def deliver(self, step: Step) -> None:
        """What any step came to. Raises BillError."""
        ...


class Exchange:
    """Asks one backend, and gives each step of its answer to a recipient.

    Belongs to the office's loop. ``moved_at``: when the backend last got on with it, in seconds of
    the loop's clock. ``paused``: the client does not read, so the backend is not read from either.
    """

    def __init__(
        self, office: Office, standing: Standing, stream: Stream, recipient: Recipient
    ) -> None:
        self.standing = standing
        self._moved_at = office.now()
        self._office = office
        self._stream = stream
        self._recipient = recipient
        self._turn = office.turn
        self._leg: Leg | None = None
        self._outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._refusal = b""

    @property
    def moved_at(self) -> float:
        """When the backend last got on with it."""
        return max(self._moved_at, self._stream.quick_at)

    @property
    def _name(self) -> str:
        return self.standing.backend.name

    async def run(self, head: bytes, body: bytes, *, fresh: bool, paused: bool) -> Outcome:
        """Send the request, and return how the answer ended."""
        upstreams = self._office.upstreams
        self.standing.in_flight += 1
        try:
            leg = await upstreams.leg(self.standing.backend, fresh=fresh)
            if self._outcome.done():  # it was ended meanwhile
                leg.abort()
            else:
                self._leg = leg
                leg.ask(head, body, self, upstreams)
                if paused:
                    leg.pause()
            return await self._outcome
        except UpstreamError as error:
            return self._broken(error.why)
        finally:
            self._leg = None
            self.standing.in_flight -= 1

    def end(self, outcome: Outcome, *, abort: bool = True) -> None:
        """End it from our side; a backend that goes on is told to stop."""
        if self._leg is not None:
            if abort:
                self._leg.abort()
            else:
                self._leg.let_go()
        self._finish(outcome)

    def hand_over(self, why: str) -> None:
        """End it, for another backend to go on."""
        self.end(self._broken(why))

    def fall_silent(self) -> bool:
        """Note that nothing more will come; tells whether nothing more is needed."""
        if self._stream.state is not State.FINISHED:
            return False
        if self._leg is not None:
            self._leg.abort()
        self.ended(None)
        return True

    def pause(self) -> None:
        """Read nothing more for now."""
        if self._leg is not None:
            self._leg.pause()

    def resume(self) -> None:
        """Read again."""
        self._moved_at = self._office.now()
        if self._leg is not None:
            self._leg.resume()

    # what the leg tells

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """The backend's head is there."""
        del headers
        self._status = status
        self._moved_at = self._office.now()

    def body(self, data: bytes) -> None:
        """A piece of its answer is there."""
        if self._status != OK:
            self._refusal += data[: LARGEST_REFUSAL - len(self._refusal)]
            return
        leg = self._leg
        # One of several chunks that were read together.
        if leg is not None and leg.short and leg.short.take(b"%x\r\n%b\r\n" % (len(data), data)):
            return
        try:
            step = self._stream.feed(data)
            if step.progress:
                self._moved_at = self._office.now()
            self._recipient.deliver(step)
        except BillError as error:
            self._not_billed(error)
            return
        if leg is not None:
            leg.short = self._short()
        if step.state is State.COMPLETE:
            self.end(Outcome(How.COMPLETE), abort=step.abort)
        elif step.state is State.INTERRUPTED:
            self.end(self._broken(self._stream.why))

    def _short(self) -> Quick | None:
        """The short way for what comes next, if there is one."""
        quick, connection = self._stream.quick, self._recipient.connection
        if quick is None or connection is None:
            return None
        quick.give_to(connection, self._turn, self._not_billed)
        return quick

    def ended(self, error: UpstreamError | None) -> None:
        """Its answer has ended, or broken off."""
        if self._status not in (0, OK):
            why = f"{self._name} answered {self._status}"
            self._finish(Outcome(How.REFUSED, why, self._status, self._refusal))
            return
        step = self._stream.ended()
        try:
            self._recipient.deliver(step)
        except BillError as bill:
            self._finish(Outcome(How.CUT, f"the bill: {bill}"))
            return
        if step.state is State.COMPLETE:
            self._finish(Outcome(How.COMPLETE))
        elif error is None:
            self._finish(self._broken(self._stream.why))
        else:
            self._finish(self._broken(error.why, stale=error.stale))

    def _not_billed(self, error: BillError) -> None:
        """End it: what cannot be billed is not sent."""
        self.end(Outcome(How.CUT, f"the bill: {error}"))

    def _broken(self, why: str, *, stale: bool = False) -> Outcome:
        return Outcome(How.BROKEN, f"{self._name}: {why}", 503, stale=stale)

    def _finish(self, outcome: Outcome) -> None:
        self._leg = None  # it may be another one's now
        if not self._outcome.done():
            self._outcome.set_result(outcome)
