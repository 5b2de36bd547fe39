"""A server of /v1/responses and /v1/embeddings that is played: real sockets, and answers as given.

It serves the model "tiny". A part of an answer is bytes to send, or a number of seconds to wait.
"""

import json
from collections.abc import Callable, Sequence

from tests.fleet.listeners import Connection, Listener, Request, reply

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
