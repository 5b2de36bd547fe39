"""A server that gives out tokens at a pace: vLLM's frames, one write for each, at even times.

    python -m benchmarks.gateway.paced PORT RATE

Each stream gets RATE events per second until its ``max_tokens``; the streams' phases are spread
evenly. One timer serves them all, so an event costs a format and a write. Behind its time, it
catches up: no event is left out.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any, cast

import uvloop

TICK = 0.001  # seconds
TEXTS = (b"The", b" lifeguard", b" watches", b" the", b" water", b" and", b" waits", b" there")
PROMPT_IDS = tuple(range(1, 33))
HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
MODELS = b'{"object":"list","data":[{"id":"tiny","object":"model","max_model_len":32768}]}'


class Frames:
    """The events of one answer, as vLLM 0.32.0 writes them, each as a chunk of HTTP.

    ``told``: what of ids, counts and usage the request asked for.
    """

    def __init__(self, request_id: str, body: dict[str, Any]) -> None:
        options = body.get("stream_options") or {}
        self.tokens = int(body.get("max_tokens") or body.get("max_completion_tokens") or 16)
        self._ids = bool(body.get("return_token_ids"))
        self._counts = bool(options.get("continuous_usage_stats"))
        self._usage = bool(options.get("include_usage"))
        self._envelope = (
            f'data: {{"id":"{request_id}","object":"chat.completion.chunk","created":1796045780,'
            f'"model":"tiny","choices":['
        ).encode()
        self._before = self._envelope + b'{"index":0,"delta":{"content":"'
        self.given = 0

    def opening(self) -> bytes:
        """Return the frame with the role."""
        prompt = ",".join(map(str, PROMPT_IDS)).encode()
        ids = b',"prompt_token_ids":[%b],"prompt_text":null' % prompt if self._ids else b""
        frame = (
            b'{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,'
            b'"finish_reason":null}]%b%b}\n\n' % (self._counted(0), ids)
        )
        return _chunk(self._envelope + frame)

    def token(self) -> bytes:
        """Return the next token's frame; the last one brings the end of the answer with it."""
        text = TEXTS[self.given % len(TEXTS)]
        self.given += 1
        is_last = self.given == self.tokens
        reason = b'"length"' if is_last else b"null"
        ids = b',"token_ids":[%d]' % (1000 + self.given % 30000) if self._ids else b""
        frame = b'%b%b"},"logprobs":null,"finish_reason":%b%b}]%b}\n\n' % (
            self._before,
            text,
            reason,
            ids,
            self._counted(self.given),
        )
        return _chunk(frame) + self._closing() if is_last else _chunk(frame)

    def _closing(self) -> bytes:
        usage = b"%b]%b}\n\n" % (self._envelope, _counts(self.given)) if self._usage else b""
        return _chunk(usage + b"data: [DONE]\n\n") + b"0\r\n\r\n"

    def _counted(self, tokens: int) -> bytes:
        return _counts(tokens) if self._counts else b""


def _counts(tokens: int) -> bytes:
    prompt = len(PROMPT_IDS)
    return (
        b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,'
        b'"completion_tokens_details":null}' % (prompt, prompt + tokens, tokens)
    )


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Pace:
    """The timer: each stream has its place among the ticks of a period."""

    def __init__(self, rate: float) -> None:
        self._places: list[set[Client]] = [set() for _ in range(max(1, round(1 / rate / TICK)))]
        self._newest = 0

    def add(self, client: "Client") -> None:
        """Give a stream a place, each the next one."""
        self._newest = (self._newest + 1) % len(self._places)
        self._places[self._newest].add(client)

    def remove(self, client: "Client") -> None:
        """Give it nothing more."""
        for place in self._places:
            place.discard(client)

    async def run(self) -> None:
        """Give out events, for ever."""
        now = asyncio.get_running_loop().time
        due, tick = now(), 0
        while True:
            while due <= now():
                for client in tuple(self._places[tick]):
                    client.next()
                tick = (tick + 1) % len(self._places)
                due += TICK
            await asyncio.sleep(max(0.0, due - now()))


class Client(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._transport: asyncio.Transport | None = None
        self._read = b""
        self._frames: Frames | None = None
        self._answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a client's connection."""
        # A stream's transport is one, though uvloop's does not say so.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give it nothing more."""
        del exc
        self._transport = None
        self._pace.remove(self)

    def data_received(self, data: bytes) -> None:
        """Answer each request that is there in full."""
        self._read += data
        while True:
            head, found, rest = self._read.partition(b"\r\n\r\n")
            length = _length(head)
            if not found or len(rest) < length:
                return
            self._read = rest[length:]
            self._answer(head, rest[:length])

    def next(self) -> None:
        """Give one event."""
        if self._frames is None or self._transport is None:
            return
        self._transport.write(self._frames.token())
        if self._frames.given == self._frames.tokens:
            self._frames = None
            self._pace.remove(self)

    def _answer(self, head: bytes, body: bytes) -> None:
        if self._transport is None:
            return
        if head.startswith(b"GET"):
            about = b"content-type: application/json\r\ncontent-length: %d" % len(MODELS)
            self._transport.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n%b" % (about, MODELS))
            return
        self._answered += 1
        self._frames = Frames(f"chatcmpl-{id(self):x}-{self._answered}", json.loads(body))
        self._transport.write(HEAD + self._frames.opening())
        self.next()
        self._pace.add(self)


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


async def serve(port: int, rate: float) -> None:
    """Serve until the process ends."""
    pace = Pace(rate)
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: Client(pace), "127.0.0.1", port, backlog=4096)
    await pace.run()


def main(arguments: Sequence[str]) -> int:
    """Serve; returns only when the process is told to end."""
    port, rate = arguments
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(port), float(rate)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
