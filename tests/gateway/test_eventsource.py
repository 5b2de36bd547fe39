"""The example page in a real browser, against a gateway of another origin that is played."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gateway.cors import headers_for, preflight
from tests.exporter.browser import Browser
from tests.gateway.page import FILE, ask, shown
from tests.gateway.playing import after, answer, chat, event, shutdown

TEXTS = ["Ein ", "größer", "es 🤝", " Wort"]
WHOLE = answer(TEXTS)
RETRY = b"retry: 50\n\n"


class Handler(BaseHTTPRequestHandler):
    """One request; what is answered to whom stands in the server's ``answers``."""

    server: "Server"

    def do_OPTIONS(self) -> None:
        asked = (f"Access-Control-Request-{name}" for name in ("Method", "Headers"))
        method, names = (self.headers.get(header) for header in asked)
        allowed = preflight(self.headers.get("origin"), method, names, self.server.origins)
        self._send(204 if allowed is not None else 405, "text/plain", b"", allowed or ())

    def do_GET(self) -> None:
        if self.path == "/":
            self._send(200, "text/html", FILE.read_bytes())
        elif self.path.startswith("/v1/streams/"):
            self.server.followed.append((self.path, self.headers.get("last-event-id")))
            body = self.server.answers.pop(0)
            self._send(200 if body else 204, "text/event-stream", body)
        else:
            self._send(404, "text/plain", b"")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.headers["authorization"], self.headers["prefer"], body))
        url = {"id": "req-1", "url": "/v1/streams/req-1?ticket=t1.x"}
        self._send(202, "application/json", json.dumps(url).encode())

    def _send(
        self, status: int, kind: str, body: bytes, more: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self.send_response(status)
        origin = self.headers.get("origin")
        for name, value in more or headers_for(origin, self.server.origins):
            self.send_header(name, value)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """What was asked of it, what it answers, and the origins that may ask."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, dict[str, object]]] = []
        self.followed: list[tuple[str, str | None]] = []
        self.answers: list[bytes] = []
        self.origins: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, name="played gateway")
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(60.0)


def test_the_page_shows_one_answer_over_all_interruptions(browser: Browser) -> None:
    upto_two = WHOLE.removesuffix(after(WHOLE, 2))
    with serving() as page, serving() as gateway:
        gateway.origins = (page.origin,)
        rest = event(5, chat(TEXTS[3])) + event(6, "[DONE]")
        third = event(3, chat(TEXTS[2]))
        gateway.answers = [
            RETRY + upto_two + third[:-20],  # cut off in the middle of an event
            RETRY,  # not now
            RETRY + third + shutdown(4),
            RETRY + rest,
        ]
        says = ask(browser, f"{page.origin}/", gateway.origin)
        assert says("done"), (browser.complaints(), gateway.followed)
        assert shown(browser) == "".join(TEXTS)
        path = "/v1/streams/req-1?ticket=t1.x"
        assert gateway.followed == [
            (path, None),
            (path, "req-1.2"),
            (path, "req-1.2"),
            (path, "req-1.4"),
        ]
        [(authorization, prefer, body)] = gateway.asked
        assert (authorization, prefer, body["stream"]) == ("Bearer secret", "respond-async", True)


def test_the_page_says_so_when_it_cannot_go_on(browser: Browser) -> None:
    with serving() as page, serving() as gateway:
        gateway.origins = ("*",)
        gateway.answers = [RETRY + event(1, chat("Ein")) + shutdown(2, token=None)]
        says = ask(browser, f"{page.origin}/", gateway.origin)
        assert says("the answer was cut off")
        assert shown(browser) == "Ein"
        gateway.answers = [RETRY + event(1, chat("Ein ")), b""]
        says = ask(browser, f"{page.origin}/", gateway.origin)
        assert says("interrupted, it cannot go on")


def test_a_page_of_an_origin_that_is_not_listed_cannot_ask(browser: Browser) -> None:
    with serving() as page, serving() as gateway:
        gateway.origins = ("https://app.example.org",)
        says = ask(browser, f"{page.origin}/", gateway.origin)
        assert says("Failed to fetch")
        assert gateway.asked == []
