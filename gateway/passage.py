"""Everything that is relayed as it is: bytes in, bytes out, tried elsewhere before the first byte.

What it cost is counted as it goes by, see gateway.charge, and billed before it is sent. After the
first byte nothing can be done for it: it ends as the server ended it.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from gateway import access_log
from gateway.bill import Admission, BillError, End, Opened
from gateway.charge import Charge
from gateway.choose import NoBackend, billed_as, choose
from gateway.counts import Where
from gateway.delivery import COMMENT
from gateway.errors import Refusal
from gateway.heads import ELSEWHERE, Head, passed_back
from gateway.letting_in import let_in, not_let_in
from gateway.office import Office
from gateway.outcome import How
from gateway.reply import LENGTH, Reply
from gateway.standing import Standing
from gateway.upstream import Leg, UpstreamError

log = logging.getLogger("gateway")


@dataclass(frozen=True)
class Errand:
    """What is to be relayed. ``model`` None goes to any backend; ``billed`` is written down."""

    head: Head
    body: bytes
    caller: str
    model: str | None
    billed: bool


class Passage:
    """Relays one request; see gateway.office.InFlight for what others ask of it."""

    def __init__(self, office: Office, errand: Errand, reply: Reply) -> None:
        self.id = errand.head.request_id
        self.caller = errand.caller
        self.model = errand.model or ""
        self.backend = ""
        self.legs = 0
        self.began = office.now()
        self._office = office
        self._errand = errand
        self._reply = reply
        self._charge = Charge(office, self.id)
        self._leg: Leg | None = None
        self._ended: asyncio.Future[str] | None = None
        self._moved_at = self._sent_at = self.began
        self._takes_comments = False
        self._status = 0
        self._over = ""  # why nobody is to be asked any more
        self._paused_at: float | None = None
        self._unread = False
        self._stale = False
        self._gone = False
        office.in_flight[self.id] = self

    @property
    def tokens(self) -> int:
        """Output tokens sent so far."""
        return self._charge.tally.tokens

    async def run(self, key: str) -> None:
        """Relay it. ``key`` names it for its caller, so that it is charged once."""
        office, errand = self._office, self._errand
        self._reply.follow(self)
        office.counts.began()
        try:
            if errand.billed:
                route = errand.head.target.partition("?")[0]
                model = billed_as(office.standings, self.model)
                opened = Opened(self.id, self.caller, key, model, route, office.wall())
                try:
                    admission = await let_in(office.bill.admit, opened)
                except BillError as error:
                    self._refuse(Refusal(503, f"the bill: {error}", retry_after=5))
                    return
                if admission is not Admission.NEW:
                    self._refuse(not_let_in(admission, key))
                    return
                self._charge.admitted()
            why = await self._all_legs()
            self._close(why)
            how = self._broken if why else str(self._status)
            access_log.ended(self, how, office.now() - self.began, self.tokens)
        except Exception:  # whatever it is, the client must not wait for ever
            log.exception("event=request_failed id=%s", self.id)
            office.counts.failed(Where.REQUEST)
            self._end("an error of this gateway")
            self._close("an error of this gateway")
        finally:
            del office.in_flight[self.id]
            office.counts.ended(office.now() - self.began)

    async def _all_legs(self) -> str:
        tried: set[str] = set()
        why = ""
        while not self._reply.begun:
            if self._over:
                self._refuse(Refusal(503, self._over, retry_after=1))
                return self._over
            found = choose(self._office.standings, self._errand.model, tried, self._office.now())
            if isinstance(found, NoBackend) or len(tried) >= self._office.settings.tries:
                last = found.why if isinstance(found, NoBackend) else ""
                status = found.status if isinstance(found, NoBackend) and not why else 503
                self._refuse(Refusal(status, "; ".join(filter(None, (why, last))), retry_after=5))
                return why or last
            self._charge.leg_begins(found.backend.name)
            why = await self._one_leg(found)
            self._charge.leg_ends(found.backend.name, self._how(self._end_of(why)))
            if not self._stale:
                tried.add(found.backend.name)
        return why

    async def _one_leg(self, standing: Standing) -> str:
        """One try; the sentence is empty if it went well."""
        self.backend = standing.backend.name
        self.legs += 1
        if self.legs == 1:
            self._office.counts.asked(self._office.now() - self.began)
        self._status = 0
        self._stale = False
        self._moved_at = self._office.now()
        standing.in_flight += 1
        ended = self._ended = asyncio.get_running_loop().create_future()
        try:
            self._leg = await self._office.upstreams.leg(standing.backend, fresh=self.legs > 1)
            if ended.done():  # the client hung up meanwhile
                self._leg.abort()
            else:
                self._ask(self._leg, standing)
            why: str = await ended
        except UpstreamError as error:
            standing.failed(self._office.now())
            return f"{self.backend}: {error.why}"
        finally:
            self._leg = None
            standing.in_flight -= 1
        return why

    def _ask(self, leg: Leg, standing: Standing) -> None:
        errand, backend = self._errand, standing.backend
        key = self._office.backend_keys.of(backend)
        head = errand.head.to(backend, key, len(errand.body))
        only_head = errand.head.method == "HEAD"
        leg.ask(head, errand.body, self, self._office.upstreams, head_only=only_head)
        if self._paused_at is not None:
            leg.pause()

    # what the leg tells

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """The head is there; one that another backend may not give is not passed on."""
        self._status = status
        self._moved_at = self._office.now()
        if status in ELSEWHERE and self.legs < self._office.settings.tries:
            self._end(f"{self.backend} answered {status}")
            return
        self._charge.begin(status, headers)
        self._takes_comments = LENGTH not in headers
        self._sent_at = self._moved_at
        self._reply.begin(status, (*passed_back(headers), ("x-request-id", self.id)))

    def body(self, data: bytes) -> None:
        """A piece of the body."""
        self._moved_at = self._office.now()
        try:
            self._charge.add(data)
        except BillError as error:  # what cannot be billed is not sent
            self.cut(f"the bill: {error}")
            return
        self._reply.write(data)
        self._sent_at = self._moved_at

    def ended(self, error: UpstreamError | None) -> None:
        """The answer has ended, or broken off."""
        self._stale = error is not None and error.stale
        self._leg = None  # it may be another one's now
        if self._ended is not None and not self._ended.done():
            self._ended.set_result("" if error is None else f"{self.backend}: {error.why}")

    def _end(self, why: str) -> None:
        leg, self._leg = self._leg, None
        if leg is not None:
            leg.abort()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(why)

    # what the client and those who look over all requests do

    def gone(self) -> None:
        """The client has hung up."""
        self._gone = True
        self._over = self._over or "the client hung up"
        self._end(self._over)

    def pause(self) -> None:
        """The client does not read."""
        self._paused_at = self._office.now()
        if self._leg is not None:
            self._leg.pause()

    def resume(self) -> None:
        """It does."""
        self._paused_at = None
        self._moved_at = self._office.now()
        if self._leg is not None:
            self._leg.resume()

    def hand_over(self, why: str) -> bool:
        """Go on at another backend, if nothing was sent yet."""
        if self._reply.begun:
            return False
        self._end(f"{self.backend}: {why}")
        return True

    def sweep(self, now: float) -> None:
        """Look whether the backend is drained, or silent for too long, or the client unread."""
        settings = self._office.settings
        if self._paused_at is not None:  # nothing is read and nothing can be sent
            if now - self._paused_at >= settings.client_stall_after:
                self._unread = True
                self._reply.cut()
                self.cut("the client takes nothing")
            return
        standing = self._office.standing(self.backend)
        if standing is not None and standing.draining and self.hand_over("it is being drained"):
            return
        if self._leg is not None and now - self._moved_at >= settings.first_byte_after:
            self._end(f"{self.backend}: silent for {now - self._moved_at:.0f} s")
        elif self._is_quiet(now):
            self._reply.write(COMMENT)
            self._sent_at = now

    def _is_quiet(self, now: float) -> bool:
        """Whether it is a stream, between two events, that has been silent for a while."""
        may = self._leg is not None and self._takes_comments and self._charge.tally.is_between
        return may and now - self._sent_at >= self._office.settings.keep_alive

    def cut(self, reason: str) -> None:
        """End it now."""
        self._over = self._over or reason
        self._end(reason)

    # the end

    @property
    def _broken(self) -> How:
        return How.UNREAD if self._unread else How.BROKEN

    def _refuse(self, refusal: Refusal) -> None:
        self._office.refuse(self._reply, refusal, (("x-request-id", self.id),))

    def _close(self, why: str) -> None:
        if not self._reply.ended:
            if why:
                self._reply.cut()
            else:
                self._reply.end()
        end = self._end_of(why)
        self._charge.close(end, self._how(end), self.backend)

    def _end_of(self, why: str) -> End:
        return self._charge.end(self._status, broken=bool(why))

    def _how(self, end: End) -> How:
        if end is End.COMPLETE:
            return How.COMPLETE
        if self._gone:
            return How.GONE
        if self._unread:
            return How.UNREAD
        if end is End.REFUSED:
            return How.REFUSED
        return How.CUT if self._over else How.BROKEN
