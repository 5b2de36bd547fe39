"""An office without servers, and who may come into it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fleet.backend import Backend
from fleet.settings import parse
from gateway.bill import Admission, BillError, Closed, End, LegEnd, Opened
from gateway.errors import Refusal
from gateway.kept import Kept, Transactions
from gateway.office import Office
from gateway.questions import Questions
from gateway.reply import Answering, Reply, Request
from gateway.seal import Seal
from gateway.shelf import Shelf
from gateway.standing import Standing
from gateway.stream import Stream
from gateway.turn import Turn
from gateway.upstream import Leg, Listener, Origin, UpstreamError, Upstreams
from tests.gateway.databases import BrokenDatabase

SEAL = Seal((b"k" * 32,), 600.0)


class NobodyAnswers(Upstreams):
    """No server can be reached; ``broken`` are those at which our own program goes wrong."""

    def __init__(self, *broken: str) -> None:
        super().__init__(1.0, Turn())
        self.broken = broken
        self.asked: list[str] = []

    async def leg(self, backend: Backend, *, fresh: bool = False) -> Leg:
        del fresh
        self.asked.append(backend.name)
        if backend.name in self.broken:
            raise TypeError("not this way")
        raise UpstreamError("no connection: refused")


class PlayedLeg(Leg):
    """A connection to a server that is played; ``answer`` says how it answers."""

    def __init__(self) -> None:
        super().__init__(Origin("127.0.0.1", 1, tls=False, prefix=""), Turn())

    def ask(
        self,
        head: bytes,
        body: bytes,
        listener: Listener,
        pool: Upstreams,
        *,
        head_only: bool = False,
    ) -> None:
        del head, body, pool, head_only
        self.answer(listener)

    def answer(self, listener: Listener) -> None:
        """Nothing comes."""


class OneLeg(Upstreams):
    """All connections are this one."""

    def __init__(self, leg: Leg) -> None:
        super().__init__(1.0, Turn())
        self._leg = leg

    async def leg(self, backend: Backend, *, fresh: bool = False) -> Leg:
        del backend, fresh
        return self._leg


class OpenBill:
    """Admits everybody, and keeps how requests were closed."""

    def __init__(self) -> None:
        self.closed: dict[str, Closed] = {}

    async def admit(self, opened: Opened) -> Admission:
        del opened
        return Admission.NEW

    async def reopen(self, opened: Opened) -> Admission:
        del opened
        return Admission.NEW

    def prompt(self, request_id: str, tokens: int, read: int | None = None) -> None:
        """Nothing is kept of it."""

    async def would_admit(self, opened: Opened) -> Admission:
        del opened
        return Admission.NEW

    async def stage(self, caller: str, request_id: str) -> End | Admission:
        del caller, request_id
        return Admission.NEW

    async def look(self) -> int:
        return 0

    def line(self, request_id: str) -> Callable[[int], None]:
        del request_id
        return lambda _: None

    def add(self, request_id: str, ids: Sequence[int], behind: Sequence[int] = ()) -> None:
        """Nothing is kept of it."""

    def details(self, request_id: str, details: Sequence[Sequence[object]]) -> None:
        """Nothing is kept of it."""

    def keep(self, request_id: str, snapshot: bytes) -> None:
        """Nothing is kept of it."""

    def again(self, request_id: str, tokens: int) -> None:
        """Nothing is kept of it."""

    def count(self, request_id: str, tokens: int) -> None:
        """Nothing is kept of it."""

    def begins(self, request_id: str, backend: str, at: float) -> None:
        """Nothing is kept of it."""

    def leg(self, request_id: str, leg: LegEnd) -> None:
        """Nothing is kept of it."""

    def close(self, request_id: str, closed: Closed) -> None:
        self.closed[request_id] = closed


class QuickDesk:
    """Answers each request at once, with its path; keeps what was asked, and what was refused."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refused: list[int] = []

    def lets_in(self, request: Request) -> bool:
        del request
        return True

    def handle(self, request: Request, reply: Reply) -> None:
        self.asked.append(request.path)
        reply.send(200, (), request.path.encode())

    def refuse(self, reply: Reply, refusal: Refusal) -> None:
        self.refused.append(refusal.status)
        reply.send(refusal.status, refusal.headers, refusal.body)


class HeardConnection:
    """Keeps what a client is sent."""

    def __init__(self) -> None:
        self.sent = b""
        self.aborted = False
        self.answering: Answering | None = None

    @property
    def is_open(self) -> bool:
        return not self.aborted

    def send(self, data: bytes) -> None:
        self.sent += data

    def answered(self, *, keep_alive: bool) -> None:
        """Nobody asks for more."""

    def abort(self) -> None:
        self.aborted = True


class ShortWay(HeardConnection):
    """A client's connection at the end of the short way, with the turn that it is gone in."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = Turn()
        self.failures: list[BillError] = []

    def takes(self, stream: Stream, chunk: bytes) -> bytes | None:
        """What the short way makes of a backend's chunk; None where it is not gone."""
        if stream.quick is None:
            return None
        self.sent = b""
        stream.quick.give_to(self, self.turn, self.failures.append)
        return self.sent if stream.quick.take(chunk) else None


def office(
    *names: str,
    upstreams: Upstreams | None = None,
    database: Transactions | None = None,
    gateway: str = "",
) -> Office:
    """An office with these backends, all of them up, and more settings of ``gateway``."""
    backends = "".join(f"- {{name: {name}, url: 'http://{name}:8000'}}\n" for name in names)
    text = f"backends:\n{backends}gateway: {{admin_token_file: admin.token, {gateway}}}"
    settings = parse(text, Path("fleet.yml"))
    assert settings.gateway is not None
    return Office(
        settings=settings.gateway,
        standings=tuple(
            Standing(one, models=frozenset({"m"}), reachable=True) for one in settings.backends
        ),
        upstreams=upstreams or NobodyAnswers(),
        bill=OpenBill(),
        seal=SEAL,
        shelf=Shelf(Kept(database or BrokenDatabase(), SEAL)),
        questions=Questions(
            database or BrokenDatabase(), SEAL, 600.0, settings.gateway.questions_per_caller
        ),
    )
