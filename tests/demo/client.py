"""A client with real sockets, and patience with a deadline."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import urlsplit

SECONDS = 10.0


class Answer(NamedTuple):
    status: int
    text: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever was sent
        return json.loads(self.text)


class Client:
    """One connection per request unless one is passed in."""

    def __init__(self, url: str, user_agent: str = "test") -> None:
        self._netloc = urlsplit(url).netloc
        self._user_agent = user_agent

    def get(self, path: str, method: str = "GET") -> Answer:
        return self._whole(method, path, None, {})

    def post(self, path: str, body: object = None, **headers: str) -> Answer:
        """``body`` as JSON; text is sent as it is."""
        return self._whole("POST", path, body, headers)

    @contextmanager
    def stream(
        self, path: str = "/v1/completions", body: object = None, **headers: str
    ) -> Iterator["Stream"]:
        """An open stream; leaving it hangs up."""
        asked = {"prompt": "hi", "max_tokens": 5000} | (body if isinstance(body, dict) else {})
        with self._connection() as connection:
            response = self._send(connection, "POST", path, asked | {"stream": True}, headers)
            try:
                yield Stream(response)
            finally:
                response.close()

    @contextmanager
    def _connection(self) -> Iterator[HTTPConnection]:
        connection = HTTPConnection(self._netloc, timeout=SECONDS)
        try:
            yield connection
        finally:
            connection.close()

    def _whole(self, method: str, path: str, body: object, headers: dict[str, str]) -> Answer:
        with self._connection() as connection:
            response = self._send(connection, method, path, body, headers)
            return Answer(response.status, response.read().decode())

    def _send(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        body: object,
        headers: dict[str, str],
    ) -> HTTPResponse:
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, data, {"User-Agent": self._user_agent} | named)
        return connection.getresponse()


class Stream:
    def __init__(self, response: HTTPResponse) -> None:
        self.response = response

    def next(self) -> str:
        """The data of the next event; waits for it."""
        while line := self.response.readline():
            if line.startswith(b"data: "):
                return line.decode().removeprefix("data: ").strip()
        raise EOFError

    def rest(self) -> list[str]:
        """All events to the end of the stream."""
        events = []
        try:
            while True:
                events.append(self.next())
        except EOFError:
            return events


def eventually(condition: Callable[[], object], what: str = "", seconds: float = SECONDS) -> None:
    """Wait until the condition holds; the deadline is for a machine that is very busy."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)
