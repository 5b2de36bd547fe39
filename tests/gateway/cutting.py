"""Ways to a gateway on which connections break."""

import re
import socket
import struct
import threading
from types import TracebackType
from typing import Self

RESET = struct.pack("ii", 1, 0)
EVENT = re.compile(rb"id: [^\n]*\ndata: [^\n]*\n\n")
DONE = b"data: [DONE]\n\n"


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


class Losing(Cutting):
    """One that loses what comes behind so many events, to the answer's end, and breaks off then."""

    def _pass_on(self, source: socket.socket, to: socket.socket, back: bool) -> None:
        if not back:
            super()._pass_on(source, to, back)
            return
        seen, passed = b"", 0
        try:
            while data := source.recv(65536):
                seen += data
                ends = [0, *(found.end() for found in EVENT.finditer(seen))]
                loses = bool(self.after) and len(ends) > self.after[0]
                upto = ends[self.after[0]] if loses else len(seen)
                if upto > passed:
                    to.sendall(seen[passed:upto])
                    passed = upto
                if loses and DONE in seen:
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
