"""What goes wrong with one backend or one request ends neither the gateway nor the others."""

import asyncio
import logging
from collections.abc import Iterator, Sequence

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from gateway.admin import Admin
from gateway.ask import Route, ask
from gateway.bill import BillError
from gateway.counts import Where
from gateway.desk import Desk
from gateway.exchange import Exchange
from gateway.fetch import Answer
from gateway.keys import Keys
from gateway.looks import Looks
from gateway.office import Office
from gateway.outcome import How, Outcome
from gateway.reply import Connection, Reply, Request
from gateway.serve import sweep
from gateway.step import Step
from gateway.stream import Stream
from gateway.turn import Turn
from gateway.upstream import Listener
from gateway.wire import Wire
from tests.gateway.fakes import HeardConnection, NobodyAnswers, OneLeg, PlayedLeg, QuickDesk, office
from tests.gateway.test_going_on import request, server


class Swept:
    """A request that is looked over; ``broken``: something is wrong with it."""

    caller, model, backend, began, legs, tokens = "alice", "m", "gpu-a", 0.0, 1, 0

    def __init__(self, name: str, *, broken: bool = False) -> None:
        self.id = name
        self.broken = broken
        self.swept = 0

    def sweep(self, now: float) -> None:
        del now
        if self.broken:
            raise KeyError("nowhere")
        self.swept += 1

    def hand_over(self, why: str) -> bool:
        del why
        return False

    def cut(self, reason: str) -> None:
        del reason


class BrokenWire(Wire):
    """A connection that nobody can look at."""

    def sweep(self, now: float, idle: float, unread: float) -> None:
        raise RuntimeError(f"{now}, {idle}, {unread}")


class BrokenCollector(Collector):
    """Metrics that cannot be told."""

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        raise ZeroDivisionError("by nobody")


def the_one_trace(caplog: pytest.LogCaptureFixture, name: str) -> str:
    (record,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert record.exc_info
    assert name in record.getMessage()
    return record.getMessage()


def test_a_look_that_goes_wrong_is_no_other_looks_end(caplog: pytest.LogCaptureFixture) -> None:
    nobody = NobodyAnswers("gpu-a")
    one = office("gpu-a", "gpu-b", upstreams=nobody)
    asyncio.run(Looks(one).once())
    assert sorted(nobody.asked) == ["gpu-a", "gpu-b"]
    assert [standing.reachable for standing in one.standings] == [True, False]
    assert one.counts.errors == {Where.LOOK: 1}
    the_one_trace(caplog, "gpu-a")


def test_an_exporter_that_cannot_be_asked_is_no_looks_end(caplog: pytest.LogCaptureFixture) -> None:
    one = office(
        "gpu-a", upstreams=NobodyAnswers("exporter"), gateway="exporter: 'http://exporter:9109'"
    )
    asyncio.run(Looks(one).once())
    assert one.counts.errors == {Where.LOOK: 1}
    the_one_trace(caplog, "exporter")


class Nested(Looks):
    """Every answer is nested too deeply to be read."""

    async def get(self, *_: object) -> Answer:
        return Answer(200, {}, b"[" * 100_000)


def test_an_answer_that_cannot_be_read_is_the_backends_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = office("gpu-a", gateway="exporter: 'http://exporter:9109'")
    one.standings[0].verdict = "stuck"
    asyncio.run(Nested(one).once())
    assert not one.standings[0].reachable
    assert one.standings[0].verdict == ""
    assert one.counts.errors == {}
    assert "event=backend_down backend=gpu-a" in caplog.text


def test_a_request_that_cannot_be_looked_over_is_no_other_ones_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = office("gpu-a")
    bad, good = Swept("req-bad", broken=True), Swept("req-good")
    one.in_flight = {each.id: each for each in (bad, good)}

    async def run(one: Office) -> None:
        sweep(one, ())

    asyncio.run(run(one))
    assert good.swept == 1
    assert one.counts.errors == {Where.SWEEP: 1}
    the_one_trace(caplog, "req-bad")


def test_a_connection_that_cannot_be_looked_at_is_no_sweeps_end() -> None:
    one = office("gpu-a")

    async def run() -> None:
        sweep(one, (BrokenWire(QuickDesk(), 1, set(), Turn()),))

    asyncio.run(run())
    assert one.counts.errors == {Where.SWEEP: 1}


def test_a_page_that_goes_wrong_is_answered_500(caplog: pytest.LogCaptureFixture) -> None:
    one, connection = office("gpu-a"), HeardConnection()
    registry = CollectorRegistry()
    registry.register(BrokenCollector())
    desk = Desk(one, Keys(None), Admin(one, one.settings.admin_token_file), registry)
    desk.handle(
        Request("GET", "/metrics", "ticket=secret", {}, b""), Reply(connection, keep_alive=True)
    )
    assert connection.sent.startswith(b"HTTP/1.1 500 ")
    assert one.counts.errors == {Where.REQUEST: 1}
    assert "secret" not in the_one_trace(caplog, "/metrics")


class SilentTransport(asyncio.Transport):
    """One whose peer takes nothing: it never gets to close."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def close(self) -> None:
        self.told.append("close")

    def abort(self) -> None:
        self.told.append("abort")


def test_an_idle_connection_is_closed_and_one_that_takes_nothing_is_broken_off() -> None:
    async def run() -> list[str]:
        wire, transport = Wire(QuickDesk(), 1, set(), Turn()), SilentTransport()
        wire.connection_made(transport)
        for quiet in (0.0, 75.0, 76.0, 77.0, 375.0, 376.0):
            wire.sweep(wire.quiet_since + quiet, 75.0, 300.0)
        return transport.told

    assert asyncio.run(run()) == ["close", "abort"]


class EmptyAnswer(PlayedLeg):
    """Answers with a head and an end."""

    def answer(self, listener: Listener) -> None:
        listener.head(200, {})
        listener.ended(None)


class NoBill:
    """Nothing can be billed."""

    @property
    def connection(self) -> Connection | None:
        return None

    def deliver(self, step: Step) -> None:
        del step
        raise BillError("the disk is full")


def test_what_cannot_be_billed_at_the_answers_end_is_cut_and_hangs_nobody() -> None:
    one = office("gpu-a", upstreams=OneLeg(EmptyAnswer()))
    body = b'{"model": "m", "prompt": "p", "stream": true}'
    stream = Stream(ask(Route.COMPLETIONS, body, forbid_resume=False), "r", 1)

    async def run() -> Outcome:
        exchange = Exchange(one, one.standings[0], stream, NoBill())
        return await exchange.run(b"", b"", fresh=True, paused=False)

    assert asyncio.run(run()) == Outcome(How.CUT, "the bill: the disk is full")


class Begins(PlayedLeg):
    """Answers with the beginning of a stream."""

    def __init__(self, events: Sequence[bytes]) -> None:
        super().__init__()
        self._events = events

    def answer(self, listener: Listener) -> None:
        listener.head(200, {})
        for event in self._events:
            listener.body(event)


class Client:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.connection: HeardConnection = HeardConnection()

    def deliver(self, step: Step) -> None:
        self.connection.send(step.out)


def test_what_cannot_be_billed_on_the_short_way_is_cut_and_not_sent() -> None:
    stream = Stream(ask(Route.CHAT, request(Route.CHAT, max_tokens=9), forbid_resume=False), "r", 1)
    first = stream.later()
    assert isinstance(first, bytes)
    answers = Begins(server(b"abcdef").events(Route.CHAT, first)[:5])
    one, client = office("gpu-a", upstreams=OneLeg(answers)), Client()

    def line(_: int) -> None:
        if len(stream.delivered) == 3:
            raise BillError("the disk is full")

    stream.line = line

    async def run() -> Outcome:
        exchange = Exchange(one, one.standings[0], stream, client)
        async with asyncio.timeout(10.0):
            return await exchange.run(b"", b"", fresh=True, paused=False)

    assert asyncio.run(run()) == Outcome(How.CUT, "the bill: the disk is full")
    sent = client.connection.sent
    assert (sent.count(b"id: r."), len(stream.delivered)) == (4, 3)
