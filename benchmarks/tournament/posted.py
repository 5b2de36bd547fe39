"""A completion request under way, from a thread of its own."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlsplit

# Nothing here is waited for that long; a socket that is left over ends by itself, in seconds.
AT_MOST = 900.0
MODEL = "tiny"


class Posted:
    """One POST /v1/completions; ``ended`` is set when it has been answered, refused or cut.

    Connecting happens at once: raises OSError where nobody listens. ``on_end`` is called from the
    thread with whether the answer was a whole one.
    """

    def __init__(
        self,
        url: str,
        prompt: Sequence[int],
        target: int,
        rank: str | None = None,
        on_end: Callable[[bool], None] | None = None,
    ) -> None:
        """Ask for exactly ``target`` tokens, of one data-parallel ``rank`` or of any."""
        self.ended = threading.Event()
        self.whole = False
        self._on_end = on_end
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=AT_MOST)
        self._connection.connect()
        self._socket: socket.socket = self._connection.sock
        body = {"model": MODEL, "prompt": list(prompt), "max_tokens": target, "ignore_eos": True}
        headers = {"Content-Type": "application/json"}
        if rank is not None:
            headers["X-data-parallel-rank"] = rank
        self._thread = threading.Thread(
            target=self._exchange, args=(json.dumps(body), headers), daemon=True
        )
        self._thread.start()

    def hang_up(self) -> None:
        """Close the connection, as a client that has had enough, and wait for the thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _exchange(self, body: str, headers: dict[str, str]) -> None:
        try:
            self._connection.request("POST", "/v1/completions", body, headers)
            response = self._connection.getresponse()
            response.read()
            self.whole = response.status == HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            self.whole = False
        finally:
            self._connection.close()
            if self._on_end is not None:
                self._on_end(self.whole)
            self.ended.set()
