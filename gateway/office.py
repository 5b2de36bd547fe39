"""What all requests share: the backends, the connections to them, the bill, what is in flight."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from fleet.gateway import GatewaySettings
from gateway.backend_keys import BackendKeys
from gateway.bill import Bill
from gateway.counts import Counts, Where
from gateway.cut import Learned
from gateway.errors import Refusal
from gateway.finished import Finished
from gateway.mishap import outlived
from gateway.questions import Questions
from gateway.reply import Headers, Reply
from gateway.seal import Seal
from gateway.shelf import Shelf
from gateway.standing import Standing
from gateway.turn import Turn
from gateway.upstream import Upstreams

log = logging.getLogger("gateway")


class InFlight(Protocol):
    """A request that has no end yet, as those know it who look over all of them."""

    id: str
    caller: str
    model: str
    backend: str
    began: float
    legs: int

    @property
    def tokens(self) -> int:
        """Output tokens delivered so far."""
        ...

    def hand_over(self, why: str) -> bool:
        """Go on at another backend, if it can; tells whether it will."""
        ...

    def sweep(self, now: float) -> None:
        """Look whether it has been silent for too long, either way."""
        ...

    def cut(self, reason: str) -> None:
        """End it now, with whatever its client needs to go on later."""
        ...


@dataclass
class Office:
    """The state of one gateway process; everything belongs to its loop.

    ``ready``: load balancers may send requests. ``closing``: new ones are refused. ``learned``: by
    backend and model. ``says_no_tokens``: the backends of which ``untold`` has told.
    """

    settings: GatewaySettings
    standings: tuple[Standing, ...]
    upstreams: Upstreams
    bill: Bill
    seal: Seal
    shelf: Shelf
    questions: Questions
    finished: Finished = field(default_factory=Finished)
    turn: Turn = field(default_factory=Turn)
    backend_keys: BackendKeys = field(default_factory=BackendKeys)
    counts: Counts = field(default_factory=Counts)
    in_flight: dict[str, InFlight] = field(default_factory=dict)
    learned: defaultdict[tuple[str, str], Learned] = field(
        default_factory=lambda: defaultdict(Learned)
    )
    says_no_tokens: set[str] = field(default_factory=set)
    ready: bool = True
    closing: bool = False
    # Seconds of the clock that loops go by. Asked at each event: the way to the running loop, for
    # its own, is a system call.
    now: Callable[[], float] = time.monotonic

    def wall(self) -> float:
        """Unix seconds."""
        return time.time()

    def standing(self, name: str) -> Standing | None:
        """The backend of exactly this name, or None."""
        return next((s for s in self.standings if s.backend.name == name), None)

    def sweep(self, request: InFlight) -> None:
        """Look over a request; one with which something is wrong is no harm to the others."""
        with outlived(self.counts, Where.SWEEP, request.id):
            request.sweep(self.now())

    def refuse(self, reply: Reply, refusal: Refusal, headers: Headers = ()) -> None:
        """Answer with an error of ours, and count it."""
        self.counts.refused(str(refusal.status))
        reply.send(refusal.status, (*refusal.headers, *headers), refusal.body)

    def untold(self, name: str) -> None:
        """Tell, once, that a backend does not tell its tokens: the bill counts its events."""
        if name not in self.says_no_tokens:
            self.says_no_tokens.add(name)
            log.warning("event=tokens_not_told backend=%s", name)

    def at(self, name: str) -> Iterator[InFlight]:
        """What is in flight at a backend."""
        return (request for request in list(self.in_flight.values()) if request.backend == name)
