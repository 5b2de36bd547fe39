"""One connection to a server: the next request has it as new, and nobody waits in vain."""

import asyncio
from collections.abc import Mapping

import pytest

from fleet.backend import Backend
from gateway.ask import Route, ask
from gateway.exchange import Exchange
from gateway.heads import Head
from gateway.outcome import How
from gateway.passage import Errand, Passage
from gateway.reply import Connection, Reply
from gateway.step import Step
from gateway.stream import Stream
from gateway.turn import Turn
from gateway.upstream import Leg, Listener, Origin, UpstreamError, Upstreams
from tests.gateway.fakes import HeardConnection, OneLeg, PlayedLeg, office

ASKED = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Heard:
    """Whoever asks. ``pauses``: reads nothing more once the answer is there."""

    def __init__(self, leg: Leg, *, pauses: bool = False) -> None:
        self.leg, self.pauses = leg, pauses
        self.read = b""
        self.end: asyncio.Future[UpstreamError | None] = asyncio.Future()

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """Nothing is made of it."""

    def body(self, data: bytes) -> None:
        self.read += data
        if self.pauses:
            self.leg.pause()

    def ended(self, error: UpstreamError | None) -> None:
        self.end.set_result(error)


def served(port: int) -> Backend:
    (standing,) = office("gpu-a").standings
    return standing.backend.__class__(
        **vars(standing.backend) | {"url": f"http://127.0.0.1:{port}"}
    )


def test_a_connection_is_read_from_again_whatever_the_last_answers_client_did() -> None:
    async def run() -> tuple[bool, bytes]:
        closed = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.readline():
                await reader.readuntil(b"\r\n\r\n")
                writer.write(ANSWER)
            writer.close()
            await writer.wait_closed()
            closed.set()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server, asyncio.timeout(20.0):
            backend = served(server.sockets[0].getsockname()[1])
            pool = Upstreams(5.0, Turn())
            first = await pool.leg(backend)
            heard = Heard(first, pauses=True)
            first.ask(ASKED, b"", heard, pool)
            assert await heard.end is None
            second = await pool.leg(backend)
            again = Heard(second)
            second.ask(ASKED, b"", again, pool)
            assert await again.end is None
            pool.close()
            await closed.wait()
        return second is first, again.read

    assert asyncio.run(run()) == (True, b"ok")


class Overflows:
    """A short way that goes wrong."""

    def take(self, data: bytes) -> bool:
        del data
        raise OverflowError


def test_who_waits_is_told_of_what_goes_wrong_on_the_short_way() -> None:
    async def run() -> str:
        turn = Turn()
        leg = Leg(Origin("127.0.0.1", 1, tls=False, prefix=""), turn)
        heard = Heard(leg)
        leg.ask(ASKED, b"", heard, Upstreams(1.0, turn))
        leg.take(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        leg.short = Overflows()
        leg.take(b"1\r\nb\r\n")
        error = heard.end.result()
        return "" if error is None else error.why

    assert asyncio.run(run()) == "an error of this gateway"


class EndsAtOnce(PlayedLeg):
    """Answers, and its client stops reading then. ``touched``: what is done to it after that."""

    def __init__(self) -> None:
        super().__init__()
        self.touched: list[str] = []

    def answer(self, listener: Listener) -> None:
        asyncio.get_running_loop().call_soon(self._answer, listener)

    @staticmethod
    def _answer(listener: Listener) -> None:
        listener.head(200, {})
        listener.ended(None)
        assert isinstance(listener, Exchange | Passage)
        listener.pause()
        if isinstance(listener, Passage):
            listener.cut("too late")

    def pause(self) -> None:
        self.touched.append("paused")

    def abort(self) -> None:
        self.touched.append("aborted")


class Nobody:
    """Takes anything."""

    connection: Connection | None = None

    def deliver(self, step: Step) -> None:
        """Nothing is made of it."""


@pytest.mark.parametrize("route", [Route.COMPLETIONS, Route.EMBEDDINGS])
def test_a_connection_is_left_alone_from_its_answers_end_on(route: Route) -> None:
    leg = EndsAtOnce()
    one = office("gpu-a", upstreams=OneLeg(leg))

    async def run() -> None:
        if route is Route.COMPLETIONS:
            body = b'{"model": "m", "prompt": "p", "stream": true}'
            stream = Stream(ask(route, body, forbid_resume=False), "r", 1)
            exchange = Exchange(one, one.standings[0], stream, Nobody())
            outcome = await exchange.run(b"", b"", fresh=True, paused=False)
            assert outcome.how is How.BROKEN
        else:
            head = Head("POST", route, {}, "r")
            errand = Errand(head, b"{}", "alice", "m", billed=False)
            await Passage(one, errand, Reply(HeardConnection(), keep_alive=True)).run("k")

    asyncio.run(run())
    assert leg.touched == []
