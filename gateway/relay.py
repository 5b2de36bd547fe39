"""One generation, from a client's request to its last byte, at however many backends it takes.

Before the first byte any failure is tried elsewhere. After it, the stream goes on elsewhere from
the last token that was sent, if its kind allows that; else the client is told that it is cut off,
with a token to go on by. What is sent is billed before it is sent.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from gateway.ask import Ask, Never, Resume, first_body
from gateway.bill import Admission, Closed, End, LegEnd, Opened
from gateway.choose import NoBackend, choose
from gateway.errors import Refusal
from gateway.heads import ELSEWHERE, Head
from gateway.office import Office, key_of
from gateway.standing import Standing
from gateway.stream import State, Step, Stream
from gateway.upstream import Leg, UpstreamError
from gateway.whole import whole
from gateway.wire import Reply

COMMENT = b": still here\n\n"
EVENT_STREAM = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    # nginx would gather a stream up otherwise.
    ("x-accel-buffering", "no"),
)
OK = 200
LARGEST_REFUSAL = 64 * 1024
CUT_OFF = "the answer was cut off"


class How(Enum):
    """How a leg ended."""

    COMPLETE = auto()
    BROKEN = auto()
    REFUSED = auto()
    GONE = auto()
    CUT = auto()


@dataclass(frozen=True)
class Outcome:
    """How a leg ended, one sentence, and the server's own answer where it refused."""

    how: How
    why: str = ""
    status: int = 0
    body: bytes = b""


class Generation:
    """Answers one request; belongs to one loop. See gateway.office.InFlight for what others ask."""

    def __init__(self, office: Office, ask: Ask, head: Head, caller: str, reply: Reply) -> None:
        self.id = head.request_id
        self.caller = caller
        self.model = ask.model
        self.backend = ""
        self.legs = 0
        self.began = office.now()
        self._office = office
        self._ask = ask
        self._head = head
        self._reply = reply
        self._stream = Stream(ask, self.id, int(office.wall()))
        self._leg: Leg | None = None
        self._ended: asyncio.Future[Outcome] | None = None
        self._status = 0
        self._refusal = b""
        self._upstream_at = self.began
        self._sent_at = self.began
        self._leg_tokens = 0
        self._cut_for = ""

    @property
    def tokens(self) -> int:
        """Output tokens delivered so far."""
        return len(self._stream.delivered)

    async def run(self, key: str) -> None:
        """Answer the request. ``key`` names it for its caller, so that it is charged once."""
        office = self._office
        self._reply.follow(self)
        office.in_flight[self.id] = self
        office.counts.began()
        try:
            opened = Opened(self.id, self.caller, key, self.model, self._ask.route, office.wall())
            admission = await office.bill.admit(opened)
            if admission is not Admission.NEW:
                said = "is being answered" if admission is Admission.BUSY else "was answered before"
                self._refuse(Refusal(409, f"the request {key!r} of this caller {said}"))
                office.counts.refused("same_key")
                return
            outcome = await self._all_legs()
            self._close(outcome)
        finally:
            del office.in_flight[self.id]
            office.counts.ended(office.now() - self.began)

    # the legs

    async def _all_legs(self) -> Outcome:
        body: bytes | Never = first_body(self._ask)
        tried: set[str] = set()
        outcome = Outcome(How.REFUSED, "no backend was asked", 503)
        while True:
            found = choose(self._office.standings, self.model, tried, self._office.now())
            if isinstance(found, NoBackend):
                return self._nobody(found, outcome)
            if isinstance(body, Never):
                return self._give_up(body.why)
            outcome = await self._one_leg(found, body)
            if outcome.how in (How.COMPLETE, How.GONE, How.CUT):
                return outcome
            if outcome.how is How.REFUSED and outcome.status not in ELSEWHERE:
                return self._pass_on(outcome)
            tried.add(found.backend.name)
            if self.tokens:
                if self.legs >= self._office.settings.legs:
                    return self._give_up(f"{outcome.why}, after {self.legs} backends")
                body = self._stream.later()
                tried = {found.backend.name}
                self._office.counts.resumed()
            elif len(tried) >= self._office.settings.tries:
                return self._pass_on(outcome)

    async def _one_leg(self, standing: Standing, body: bytes) -> Outcome:
        office = self._office
        self.backend = standing.backend.name
        self.legs += 1
        self._leg_tokens = self.tokens
        self._status, self._refusal = 0, b""
        self._upstream_at = office.now()
        self._stream.begin()
        standing.in_flight += 1
        self._ended = asyncio.get_running_loop().create_future()
        try:
            fresh = self.legs > 1
            self._leg = await office.upstreams.leg(standing.backend, fresh=fresh)
            if self._ended.done():  # the client hung up meanwhile
                self._leg.abort()
                return self._ended.result()
            head = self._head.to(standing.backend, key_of(standing.backend), len(body))
            self._leg.ask(head, body, self, office.upstreams)
            outcome = await self._ended
        except UpstreamError as error:
            outcome = Outcome(How.BROKEN, f"{self.backend}: {error.why}", 503)
        finally:
            self._leg = None
            standing.in_flight -= 1
        self._judge(standing, outcome)
        office.bill.leg(self.id, self._leg_end(outcome))
        return outcome

    def _judge(self, standing: Standing, outcome: Outcome) -> None:
        if outcome.how is How.COMPLETE:
            standing.went_well()
        elif outcome.how is How.BROKEN and not standing.draining:
            standing.failed(self._office.now())

    def _leg_end(self, outcome: Outcome) -> LegEnd:
        stream = self._stream
        return LegEnd(
            backend=self.backend,
            prompt_tokens=len(stream.prompt_ids) + self._leg_tokens,
            completion_tokens=max(0, self.tokens - self._leg_tokens),
            how=outcome.how.name.lower(),
            at=self._office.wall(),
        )

    # what the leg tells

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """The backend's head is there."""
        del headers
        self._status = status
        self._upstream_at = self._office.now()

    def body(self, data: bytes) -> None:
        """A piece of its answer is there."""
        if self._status != OK:
            self._refusal += data[: LARGEST_REFUSAL - len(self._refusal)]
            return
        step = self._stream.feed(data)
        self._deliver(step)
        if step.state is State.COMPLETE:
            self._end_leg(Outcome(How.COMPLETE))
        elif step.state is State.INTERRUPTED:
            self._end_leg(Outcome(How.BROKEN, f"{self.backend}: {self._stream.why}", 503))

    def ended(self, error: UpstreamError | None) -> None:
        """Its answer has ended, or broken off."""
        if self._status not in (0, OK):
            why = f"{self.backend} answered {self._status}"
            self._finish(Outcome(How.REFUSED, why, self._status, self._refusal))
            return
        step = self._stream.ended()
        self._deliver(step)
        if step.state is State.COMPLETE:
            self._finish(Outcome(How.COMPLETE))
        else:
            why = error.why if error is not None else self._stream.why
            self._finish(Outcome(How.BROKEN, f"{self.backend}: {why}", 503))

    def _deliver(self, step: Step) -> None:
        if step.ids:
            self._office.bill.add(self.id, step.ids)
        if step.progress:
            self._upstream_at = self._office.now()
        if step.out and self._ask.stream:
            if not self._reply.begun:
                self._begin()
            self._reply.write(step.out)
            self._sent_at = self._upstream_at

    def _begin(self) -> None:
        self._office.counts.first_byte(self._office.now() - self.began)
        self._reply.begin(OK, (*EVENT_STREAM, ("x-request-id", self.id)))

    def _end_leg(self, outcome: Outcome) -> None:
        """End the leg from our side; a backend that goes on is told to stop."""
        if self._leg is not None:
            self._leg.abort()
        self._finish(outcome)

    def _finish(self, outcome: Outcome) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(outcome)

    # what the client does

    def gone(self) -> None:
        """The client has hung up."""
        self._end_leg(Outcome(How.GONE, "the client hung up"))

    def pause(self) -> None:
        """The client does not read."""
        if self._leg is not None:
            self._leg.pause()

    def resume(self) -> None:
        """It does."""
        if self._leg is not None:
            self._leg.resume()

    # what those do who look over all requests

    def hand_over(self, why: str) -> bool:
        """Go on at another backend, if it can; tells whether it will."""
        if self.tokens and self._ask.resume is Resume.NEVER:
            return False
        self._end_leg(Outcome(How.BROKEN, f"{self.backend}: {why}", 503))
        return True

    def cut(self, reason: str) -> None:
        """End it now, with whatever its client needs to go on later."""
        self._cut_for = reason
        self._end_leg(Outcome(How.CUT, reason))

    def sweep(self, now: float) -> None:
        """Look whether the backend, or we, have been silent for too long."""
        settings = self._office.settings
        patience = settings.stall_after if self.tokens else settings.first_byte_after
        if self._leg is not None and now - self._upstream_at >= patience:
            why = f"silent for {now - self._upstream_at:.0f} s"
            if not self.hand_over(why):
                self.cut("stalled")
        elif self._ask.stream and now - self._sent_at >= settings.keep_alive:
            if not self._reply.begun:
                self._begin()
            self._reply.write(COMMENT)
            self._sent_at = now

    # the end

    def _nobody(self, found: NoBackend, last: Outcome) -> Outcome:
        if self.tokens or self._reply.begun:
            return self._give_up(f"{last.why}; {found.why}")
        if last.how is How.REFUSED and last.body:
            return self._pass_on(last)
        self._refuse(Refusal(found.status, found.why, "model", found.retry_after))
        return Outcome(How.REFUSED, found.why, found.status)

    def _pass_on(self, outcome: Outcome) -> Outcome:
        """Tell the client what the last backend said."""
        if self._reply.begun:
            return self._give_up(outcome.why)
        if outcome.body:
            self._reply.send(outcome.status, (("content-type", "application/json"),), outcome.body)
        else:
            self._refuse(Refusal(503, outcome.why, retry_after=5))
        return Outcome(How.REFUSED, outcome.why, outcome.status)

    def _give_up(self, why: str) -> Outcome:
        return Outcome(How.CUT, why)

    def _refuse(self, refusal: Refusal) -> None:
        self._office.counts.refused(str(refusal.status))
        headers = (*refusal.headers, ("x-request-id", self.id))
        self._reply.send(refusal.status, headers, refusal.body)

    def _close(self, outcome: Outcome) -> None:
        ends = {How.COMPLETE: End.COMPLETE, How.REFUSED: End.REFUSED}
        end = ends.get(outcome.how, End.PARTIAL if self.tokens else End.FAILED)
        if outcome.how is How.COMPLETE:
            self._finished()
        elif outcome.how is How.CUT:
            self._goodbye(outcome.why)
        stream = self._stream
        self._office.counts.closed(end, outcome.how.name.lower())
        self._office.bill.close(
            self.id,
            Closed(
                end=end,
                finish_reason=stream.finish_reason or "",
                prompt_tokens=stream.prompt_tokens,
                completion_tokens=self.tokens,
                at=self._office.wall(),
            ),
        )

    def _finished(self) -> None:
        if self._ask.stream:
            self._reply.end()
            return
        body = json.dumps(whole(self._stream), ensure_ascii=False, separators=(",", ":")).encode()
        headers = (("content-type", "application/json"), ("x-request-id", self.id))
        self._reply.send(OK, headers, body)

    def _goodbye(self, why: str) -> None:
        """The end of a stream that is not its answer's end, as a frame that no client overlooks."""
        office = self._office
        refusal = Refusal(503, f"{CUT_OFF}: {why}", retry_after=1)
        if not self._ask.stream:
            self._refuse(refusal)
            return
        frame: dict[str, object] = {
            "error": refusal.error,
            "type": "shutdown",
            "reason": self._cut_for or "interrupted",
            "requestId": self.id,
            "generatedTokens": self.tokens,
            "resumeToken": self._resume_token(),
            "timestamp": int(office.wall()),
        }
        if not self._reply.begun:
            self._begin()
        self._reply.write(self._stream.goodbye(frame))
        self._reply.end()

    def _resume_token(self) -> str | None:
        if self._ask.resume is Resume.NEVER:
            return None
        return self._office.seal.token(self.caller, self._stream.snapshot(), self._office.wall())
