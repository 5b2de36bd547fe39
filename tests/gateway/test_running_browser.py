"""A real browser, the example page and running gateways: whatever is cut, one whole answer."""

import json
import socket
import struct
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.exporter.browser import Browser
from tests.gateway.hearing import CHAT
from tests.gateway.page import FILE, ask, serving_page, shown
from tests.gateway.running import Gateway, Simulated, eventually

TOKENS = 120
RESET = struct.pack("ii", 1, 0)


class Cutting:
    """A way to a gateway that breaks off after so many events, once for each of ``after``."""

    def __init__(self, port: int, after: list[int]) -> None:
        self.after = after
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(10.0)
        for one in self._sockets:
            _shut(one)
        for thread in self._threads:
            thread.join(10.0)
            assert not thread.is_alive()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._port), timeout=30.0)
            self._sockets += [client, server]
            for way in ((client, server, False), (server, client, True)):
                thread = threading.Thread(target=self._pass_on, args=way)
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, to: socket.socket, back: bool) -> None:
        events = 0
        try:
            while data := source.recv(65536):
                to.sendall(data)
                events += data.count(b"\ndata: ") if back else 0
                if events and self.after and events >= self.after[0]:
                    self.after.pop(0)
                    break
        except OSError:
            pass
        for one in (source, to):
            _shut(one)


def _shut(one: socket.socket) -> None:
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def whole_answer(gateway: Gateway) -> str:
    """What the page's question is answered with where nothing is cut."""
    messages = [{"role": "user", "content": "?"}]
    answered = gateway.post(CHAT, {"model": "tiny", "messages": messages})
    return str(answered.json()["choices"][0]["message"]["content"])


def backend(folder: Path) -> Simulated:
    """One whose answers to the page have a length."""
    return Simulated(folder, "gpu-a", steps_per_second=40, max_model_len=TOKENS + 16)


def asked(gateway: Gateway) -> str:
    """The one request that is not whole_answer's."""
    [own] = [row for row in gateway.ledger().values() if row.caller != "anonymous"]
    return own.request_id


def test_a_browser_does_not_notice_a_rollout(tmp_path: Path, browser: Browser) -> None:
    with backend(tmp_path) as server, serving_page() as page:
        origins = [page]
        backends = {"gpu-a": server.url}
        with Gateway(tmp_path, backends, cors_origins=origins) as gateway:
            expected = whole_answer(gateway)
            says = ask(browser, f"{page}/{FILE.name}", gateway.url, "tiny")
            enough = len(expected) // 4
            eventually(lambda: len(shown(browser)) > enough, "a part of the answer is shown")
            gateway.term_twice()
            assert gateway.wait() == 0
            cut = shown(browser)
            assert expected.startswith(cut)
            assert cut != expected
        with Gateway(
            tmp_path, backends, name="next", port=gateway.port, cors_origins=origins
        ) as following:
            assert says("done"), (browser.complaints(), shown(browser), following.said)
            assert shown(browser) == expected
            row = following.billed(asked(following), "complete")
            assert row.finish_reason == "length"
            assert "ticket=" not in following.said + gateway.said


def test_a_browser_does_not_notice_that_its_connection_breaks(
    tmp_path: Path, browser: Browser
) -> None:
    with (
        backend(tmp_path) as server,
        serving_page() as page,
        Gateway(tmp_path, {"gpu-a": server.url}, cors_origins=[page]) as gateway,
        Cutting(gateway.port, [10, 20, 5]) as way,
    ):
        expected = whole_answer(gateway)
        says = ask(browser, f"{page}/{FILE.name}", way.url, "tiny")
        assert says("done"), (browser.complaints(), shown(browser), json.dumps(expected))
        assert shown(browser) == expected
        assert way.after == []
        gateway.billed(asked(gateway), "complete")
