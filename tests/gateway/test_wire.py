"""A client's connection: how many of its requests are answered in one turn of the loop."""

import asyncio

from gateway.turn import Turn
from gateway.wire import Wire
from tests.gateway.fakes import QuickDesk

ASK = b"GET /n%d HTTP/1.1\r\n\r\n"


class HeardTransport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reads = True
        self.ended = ""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.ended != ""

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def write_eof(self) -> None:
        self.ended = "eof"

    def close(self) -> None:
        self.ended = "close"

    def abort(self) -> None:
        self.ended = "abort"


def connected() -> tuple[QuickDesk, HeardTransport, Wire]:
    desk, transport = QuickDesk(), HeardTransport()
    wire = Wire(desk, 1, set(), Turn())
    wire.connection_made(transport)
    return desk, transport, wire


async def turn() -> None:
    await asyncio.sleep(0)


def test_of_what_came_together_one_is_answered_in_a_turn_and_nothing_is_read_meanwhile() -> None:
    async def run() -> None:
        desk, transport, wire = connected()
        wire.data_received(b"".join(ASK % number for number in range(4)))
        for number in range(4):
            assert desk.asked == [f"/n{each}" for each in range(number + 1)]
            assert transport.reads == (number == 3)
            await turn()
        wire.data_received(ASK % 4)
        assert desk.asked[-1] == "/n4", "one alone waits for no turn"
        await turn()
        assert [transport.written.count(b"/n%d" % each) for each in range(5)] == [1] * 5

    asyncio.run(run())


def test_who_is_gone_before_its_turn_is_answered_nothing() -> None:
    async def run() -> None:
        desk, _, wire = connected()
        wire.data_received((ASK % 0) * 3)
        wire.connection_lost(None)
        await turn()
        assert desk.asked == ["/n0"]

    asyncio.run(run())


def test_what_is_no_request_is_refused_once_those_before_it_are_answered() -> None:
    async def run() -> None:
        desk, transport, wire = connected()
        wire.data_received((ASK % 0) * 2 + b"?")
        assert desk.refused == []
        for _ in range(3):
            await turn()
        assert desk.asked == ["/n0", "/n0"]
        assert desk.refused == [400]
        assert transport.ended == "eof"
        wire.connection_lost(None)

    asyncio.run(run())
