"""A gateway that is played: one numbered answer over real sockets, cut as a test wants it."""

import json
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

REQUEST = "req-1"
TOKEN = "r1.token"
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"x-request-id: req-1\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
)


def event(number: int, data: str, request: str = REQUEST) -> bytes:
    return f"id: {request}.{number}\ndata: {data}\n\n".encode()


def chat(text: str) -> str:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }
    return json.dumps(chunk, ensure_ascii=False)


def shutdown(number: int, token: str | None = TOKEN) -> bytes:
    frame = {
        "error": {"message": "the answer was cut off", "type": "service_unavailable_error"},
        "type": "shutdown",
        "reason": "shutdown",
        "requestId": REQUEST,
        "generatedTokens": number,
        "resumeToken": token,
        "timestamp": 1,
    }
    return event(number, json.dumps(frame))


def answer(texts: Sequence[str]) -> bytes:
    """The whole answer, as the events from 1 on, [DONE] included."""
    datas = [*map(chat, texts), "[DONE]"]
    return b"".join(event(n, data) for n, data in enumerate(datas, start=1))


def after(whole: bytes, number: int) -> bytes:
    """What of an answer comes after an event's number."""
    raws = whole.split(b"\n\n")[:-1]
    return b"".join(
        raw + b"\n\n" for raw in raws if int(raw.split(b"\n")[0].rpartition(b".")[2]) > number
    )


@dataclass(frozen=True)
class Sent:
    """What one connection is answered: a stream, whole or broken off, or a refusal.

    ``body`` None is what comes after the Last-Event-ID that was sent; of it the first ``size``
    bytes go out. ``end``: "clean", "cut" (no last chunk) or "reset".
    """

    body: bytes | None = None
    size: int | None = None
    end: str = "clean"
    goodbye: bool = False
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Got:
    """A request as it came."""

    line: str
    headers: Mapping[str, str]
    body: bytes


class PlayingGateway:
    """Answers one connection after another as planned, and the last plan from then on."""

    def __init__(self, whole: bytes, *plan: Sent) -> None:
        self.whole = whole
        self.plan = list(plan)
        self.got: list[Got] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run, name="playing gateway")
        self._over = False

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"{self.origin}/v1/chat/completions"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over = True
        with socket.create_connection(self._listener.getsockname()):
            pass
        self._thread.join(60.0)
        self._listener.close()
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            with connection:
                if self._over:
                    return
                connection.settimeout(10.0)
                try:
                    self._answer(connection)
                except OSError:
                    continue  # the client has hung up

    def _answer(self, connection: socket.socket) -> None:
        got = read(connection)
        if got is None:
            return
        self.got.append(got)
        sent = self.plan.pop(0) if len(self.plan) > 1 else self.plan[0]
        if sent.status != 200:
            self._refuse(connection, sent)
            return
        last = int(got.headers.get("last-event-id", f"{REQUEST}.0").rpartition(".")[2])
        body = after(self.whole, last) if sent.body is None else sent.body
        if sent.size is not None:
            body = body[: sent.size]
        if sent.goodbye:
            raws = body.split(b"\n\n")[:-1]
            body = b"".join(raw + b"\n\n" for raw in raws) + shutdown(last + len(raws) + 1)
        connection.sendall(HEAD)
        for start in range(0, len(body), 50):
            piece = body[start : start + 50]
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
        if sent.end == "clean":
            connection.sendall(b"0\r\n\r\n")
        if sent.end == "reset":
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    @staticmethod
    def _refuse(connection: socket.socket, sent: Sent) -> None:
        body = json.dumps({"error": {"message": f"refused with {sent.status}"}}).encode()
        lines = [f"HTTP/1.1 {sent.status} Refused", f"content-length: {len(body)}"]
        lines += [
            "connection: close",
            *(f"{name}: {value}" for name, value in sent.headers.items()),
        ]
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)


def read(connection: socket.socket) -> Got | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += connection.recv(65536)
    return Got(line, headers, body)
