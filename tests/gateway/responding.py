"""A server that is played: real sockets, and whatever is to be answered.

It serves the model "tiny". A part of an answer is bytes to send, or a number of seconds to wait.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from tests.fleet.listeners import Connection, Listener, Request, reply
from tests.gateway.running import SECONDS, Gateway, eventually

USAGE = {"input_tokens": 4, "output_tokens": 30}
FOR_EVER = -1.0
JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"

Part = bytes | float


def event(kind: str, **members: object) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def deltas(count: int, **members: object) -> list[bytes]:
    kind = "response.output_text.delta"
    return [event(kind, delta=f" x{i}", **members) for i in range(count)]


CREATED = event("response.created", response={"id": "resp_1", "usage": None})


def completed(**members: object) -> bytes:
    return event("response.completed", response={"id": "resp_1", **members, "usage": USAGE})


def frame(  # of a server that tells no token ids
    text: str = " x", *, finish: str | None = None, usage: int | None = None
) -> bytes:
    told = {} if usage is None else {"usage": counted(usage)}
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    chunk = {"id": "c", "object": "text_completion", "created": 1, "model": "tiny"}
    return chunk_of({**chunk, "choices": [choice], **told})


def chunk_of(members: object) -> bytes:
    """As vLLM writes it: without blanks."""
    return f"data: {json.dumps(members, separators=(',', ':'))}\n\n".encode()


def counted(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 4, "completion_tokens": tokens, "total_tokens": 4 + tokens}


def usage(tokens: int) -> bytes:
    chunk = {"id": "c", "object": "text_completion", "created": 1, "model": "tiny"}
    told = {**chunk, "choices": [], "usage": counted(tokens)}
    return chunk_of(told)


class Responding(Listener):
    """Answers each POST with these parts; ``asked`` are the requests so far."""

    def __init__(
        self, parts: Sequence[Part] | Callable[[Request], Sequence[Part]], kind: str = EVENTS
    ) -> None:
        super().__init__(self._answer)
        self._parts = parts
        self._kind = kind
        self.asked: list[Request] = []

    def _answer(self, connection: Connection) -> None:
        while (request := connection.request()) is not None:
            if request.path == "/v1/models":
                cards = {"object": "list", "data": [{"id": "tiny", "object": "model"}]}
                connection.send(reply(json.dumps(cards), content_type=JSON))
                continue
            self.asked.append(request)
            head = f"HTTP/1.1 200 OK\r\ncontent-type: {self._kind}\r\n"
            connection.send(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
            parts = self._parts(request) if callable(self._parts) else self._parts
            for part in parts:
                if isinstance(part, bytes):
                    connection.send(b"%x\r\n%b\r\n" % (len(part), part))
                elif part == FOR_EVER:
                    connection.wait_until_closed()
                    return
                else:
                    connection.wait(part)
            connection.send(b"0\r\n\r\n")


@contextmanager
def started(folder: Path, backend: Responding) -> Iterator[Gateway]:
    """A gateway in front of it that is ready."""
    with Gateway(folder, {"gpu-a": backend.url}) as gateway:
        eventually(lambda: gateway.status("/-/ready") == 200, "ready")
        yield gateway


def hang_up(gateway: Gateway) -> None:
    """The client does, at the end of ``streaming``; the gateway goes on."""
    assert gateway.is_running


@contextmanager
def streaming(
    gateway: Gateway, path: str, body: object, request_id: str
) -> Iterator[HTTPConnection]:
    """A client's connection, on which this was asked for; it hangs up in the end."""
    connection = HTTPConnection("127.0.0.1", gateway.port, timeout=SECONDS)
    headers = {"content-type": JSON, "x-request-id": request_id}
    connection.request("POST", path, json.dumps(body), headers)
    yield connection
    connection.close()
