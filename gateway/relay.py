"""One generation, from a client's request to its last byte, at however many backends it takes.

Before the first byte any failure is tried elsewhere. After it, the stream goes on elsewhere from
the last token that was sent, if its kind allows that; else the client is told that it is cut off,
with a token to go on by. What is sent is billed before it is sent.
"""

import asyncio
import logging
from dataclasses import dataclass

from gateway import access_log
from gateway.ask import Ask, Never, first_body
from gateway.bill import Admission, BillError, LegEnd, Opened
from gateway.choose import NoBackend, billed_as, choose
from gateway.counts import Where
from gateway.delivery import Delivery
from gateway.errors import Refusal
from gateway.exchange import Exchange
from gateway.heads import ELSEWHERE, Head
from gateway.kept import Taken
from gateway.letting_in import let_in, not_let_in
from gateway.office import Office
from gateway.outcome import How, Outcome
from gateway.parting import Parting
from gateway.reply import Reply
from gateway.resumable import Resume
from gateway.standing import Standing
from gateway.stream import State, Stream

WAIT_SECONDS = 0.25

log = logging.getLogger("gateway")


@dataclass(frozen=True)
class Wanted:
    """What is to be generated for whom.

    ``key`` names it for its caller, so that it is charged once; None where it is admitted already.
    ``taken``: what it was taken up from, which is given back where nobody can go on with it.
    ``again``: how many of the tokens that follow are on the bill already, for they were sent
    before.
    """

    stream: Stream
    head: Head
    caller: str
    key: str | None
    taken: Taken | None = None
    again: int = 0


class Generation:
    """Answers one request; belongs to one loop. See gateway.office.InFlight for what others ask."""

    def __init__(self, office: Office, wanted: Wanted, reply: Reply) -> None:
        stream = wanted.stream
        self.id = stream.request_id
        self.caller = wanted.caller
        self.model = stream.ask.model
        self.backend = ""
        self.legs = 0
        self._office = office
        self._wanted = wanted
        self._stream = stream
        self._reply = reply
        self._parting = Parting(
            office, stream, wanted.caller, reply, taken=wanted.taken, again=wanted.again
        )
        self._delivery = Delivery(office, stream, reply, self._parting)
        self.began = self._delivery.began
        self._exchange: Exchange | None = None
        self._reason = "interrupted"
        self._over: Outcome | None = None  # said by the client or by us, whatever backends do
        self._paused_at: float | None = None
        office.in_flight[self.id] = self

    @property
    def _ask(self) -> Ask:
        return self._stream.ask

    @property
    def tokens(self) -> int:
        """Output tokens delivered so far."""
        return len(self._stream.delivered)

    async def run(self) -> None:
        """Answer the request."""
        office = self._office
        self._reply.follow(self)
        office.counts.began()
        try:
            if await self._is_admitted():
                outcome = await self._all_legs()
                await self._parting.end(outcome, self._reason)
                seconds = office.now() - self.began
                access_log.ended(self, outcome.how, seconds, self._stream.completion_tokens)
        except Exception:  # whatever it is, the client must not wait for ever
            log.exception("event=request_failed id=%s", self.id)
            office.counts.failed(Where.REQUEST)
            self._end(Outcome(How.CUT, "an error of this gateway"))
            self._parting.fail()
        finally:
            del office.in_flight[self.id]
            office.counts.ended(office.now() - self.began)

    async def _is_admitted(self) -> bool:
        key, route = self._wanted.key, self._ask.route
        if key is None:
            self._delivery.taken_up(self._wanted.again)
            return True
        at = self._office.wall()
        model = billed_as(self._office.standings, self.model)
        opened = Opened(self.id, self.caller, key, model, route, at)
        try:
            admission = await let_in(self._office.bill.admit, opened)
        except BillError as error:
            self._parting.refuse(Refusal(503, f"the bill: {error}", retry_after=5))
            return False
        if admission is Admission.NEW:
            self._delivery.admitted()
            return True
        self._parting.refuse(not_let_in(admission, key))
        return False

    # the legs

    async def _all_legs(self) -> Outcome:
        if self._stream.state in (State.FINISHED, State.COMPLETE):  # before it was taken up
            self._delivery.deliver(self._stream.ended())
            return Outcome(How.COMPLETE)
        is_new = self._stream.state is not State.INTERRUPTED
        body = first_body(self._ask) if is_new else self._stream.later()
        tried: set[str] = set()
        outcome = Outcome(How.REFUSED, "no backend was asked", 503)
        while self._over is None:
            if isinstance(body, Never) and self._parting.whole is not None:
                body = self._anew()
            if isinstance(body, Never):
                return Outcome(How.CUT, f"{outcome.why}; {body.why}")
            found = choose(self._office.standings, self.model or None, tried, self._office.now())
            if isinstance(found, NoBackend):
                if await self._somebody_comes(found):
                    tried.clear()
                    continue
                return self._nobody(found, outcome)
            outcome = await self._one_leg(found, body)
            if outcome.stale:
                continue
            last = self._last(outcome, found, tried)
            if last is not None:
                return last
            if outcome.how is How.BROKEN:
                body = self._stream.later()
                self._office.counts.resumed(self.backend)
        return self._over

    async def _somebody_comes(self, found: NoBackend) -> bool:
        """Wait for a backend that can go on with what has begun, as long as one may be silent.

        True as well where there is nobody left to wait for one.
        """
        if not self._stream.seq or found.retry_after is None:
            return False
        until = self._office.now() + self._office.settings.stall_after
        while self._over is None and self._office.now() < until:
            await asyncio.sleep(WAIT_SECONDS)
            if self._can_go_to_another(besides=frozenset()):
                return True
        return self._over is not None

    def _can_go_to_another(self, besides: frozenset[str]) -> bool:
        now, model = self._office.now(), self.model or None
        return not isinstance(choose(self._office.standings, model, besides, now), NoBackend)

    def _anew(self) -> bytes:
        """Begin with nothing: of an answer that is sent whole, nothing was sent yet."""
        self._stream = Stream(self._ask, self.id, self._stream.created)
        self._parting.anew(self._stream)
        self._delivery.begin_anew(self._stream)
        return first_body(self._ask)

    def _last(self, outcome: Outcome, standing: Standing, tried: set[str]) -> Outcome | None:
        """How it all ends if this leg was the last one; None if another backend is asked."""
        if outcome.how in (How.COMPLETE, How.GONE, How.UNREAD, How.CUT):
            return outcome
        if outcome.how is How.REFUSED and outcome.status not in ELSEWHERE:
            return self._pass_on(outcome)
        if self.tokens > self._delivery.tokens_before:
            tried.clear()
        tried.add(standing.backend.name)
        if not self.tokens and len(tried) >= self._office.settings.tries:
            return self._pass_on(outcome)
        if self.legs >= self._office.settings.legs:
            return Outcome(How.CUT, f"{outcome.why}, after {self.legs} backends")
        return None

    async def _one_leg(self, standing: Standing, body: bytes) -> Outcome:
        office = self._office
        self.backend = standing.backend.name
        self.legs += 1
        if self.legs == 1:
            office.counts.asked(office.now() - self.began)
        self._delivery.begin_leg()
        self._stream.begin(office.learned[self.backend, self.model])
        office.bill.begins(self.id, self.backend, office.wall())
        head = self._wanted.head.to(
            standing.backend, office.backend_keys.of(standing.backend), len(body)
        )
        self._exchange = Exchange(office, standing, self._stream, self._delivery)
        fresh = self.legs > 1
        paused = self._paused_at is not None
        outcome = await self._exchange.run(head, body, fresh=fresh, paused=paused)
        self._exchange = None
        self._judge(standing, outcome)
        office.bill.leg(self.id, self._leg_end(outcome))
        return outcome

    def _judge(self, standing: Standing, outcome: Outcome) -> None:
        if self._stream.is_guess:
            self._office.untold(self.backend)
        if outcome.how is How.COMPLETE:
            standing.went_well()
        elif outcome.how is How.BROKEN and not (standing.draining or outcome.stale):
            standing.failed(self._office.now())

    def _leg_end(self, outcome: Outcome) -> LegEnd:
        stream = self._stream
        return LegEnd(
            backend=self.backend,
            prompt_tokens=stream.prompt_tokens + self._delivery.tokens_before,
            completion_tokens=max(0, stream.completion_tokens - self._delivery.tokens_before),
            how=outcome.how,
            at=self._office.wall(),
        )

    # what the client does

    def gone(self) -> None:
        """The client has hung up."""
        self._end(Outcome(How.GONE, "the client hung up"))

    def _end(self, outcome: Outcome) -> None:
        self._over = self._over or outcome
        if self._exchange is not None:
            self._exchange.end(outcome)

    def pause(self) -> None:
        """The client does not read."""
        self._paused_at = self._office.now()
        if self._exchange is not None:
            self._exchange.pause()

    def resume(self) -> None:
        """It does."""
        self._paused_at = None
        if self._exchange is not None:
            self._exchange.resume()

    # what those do who look over all requests

    def hand_over(self, why: str) -> bool:
        """Go on at another backend, if it can; tells whether it will."""
        never = self._stream.resume[0] is Resume.NEVER
        if self._exchange is None or (self._stream.seq and never and self._parting.whole is None):
            return False
        self._exchange.hand_over(why)
        return True

    def cut(self, reason: str) -> None:
        """End it now, with whatever its client needs to go on later."""
        self._reason = reason
        self._end(Outcome(How.CUT, reason))

    def sweep(self, now: float) -> None:
        """Look whether the backend, or we, have been silent for too long, or the client unread."""
        settings = self._office.settings
        if self._is_drained_away():
            return
        if self._paused_at is not None:  # nothing is read and nothing can be sent
            if now - self._paused_at >= settings.client_stall_after:
                self._reply.cut()
                self._end(Outcome(How.UNREAD, "the client takes nothing"))
            return
        patience = settings.stall_after if self._stream.seq else settings.first_byte_after
        silent = now - self._exchange.moved_at if self._exchange is not None else 0.0
        if self._exchange is not None and silent >= patience:
            if not self._exchange.fall_silent() and not self.hand_over(
                f"silent for {silent:.0f} s"
            ):
                self.cut("stalled")
        elif self._ask.stream and now - self._delivery.sent_at >= settings.keep_alive:
            self._delivery.comment()

    def _is_drained_away(self) -> bool:
        """Leave a backend that is being drained, once there is another to go to."""
        return (
            self._exchange is not None
            and self._exchange.standing.draining
            and self._can_go_to_another(besides=frozenset({self.backend}))
            and self.hand_over("it is being drained")
        )

    # the end

    def _nobody(self, found: NoBackend, last: Outcome) -> Outcome:
        if self._reply.begun or self._stream.seq:
            return Outcome(How.CUT, f"{last.why}; {found.why}")
        if last.how is How.REFUSED and last.body:
            return self._pass_on(last)
        self._parting.refuse(Refusal(found.status, found.why, "model", found.retry_after))
        return Outcome(How.REFUSED, found.why, found.status)

    def _pass_on(self, outcome: Outcome) -> Outcome:
        """Tell the client what the last backend said."""
        if self._reply.begun or self._stream.seq:
            return Outcome(How.CUT, outcome.why)
        self._parting.pass_on(outcome)
        return Outcome(How.REFUSED, outcome.why, outcome.status)
