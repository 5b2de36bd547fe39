"""One whole, bounded answer of a server: for looks and for small requests, not for streams."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.backend import Backend
from gateway.upstream import UpstreamError, Upstreams

LARGEST_ANSWER = 8 * 1024 * 1024


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Gathering:
    """Gathers one answer, up to LARGEST_ANSWER bytes of it."""

    def __init__(self) -> None:
        self.done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._headers: Mapping[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """The head is there."""
        self._status, self._headers = status, dict(headers)

    def body(self, data: bytes) -> None:
        """A piece of the body."""
        self._size += len(data)
        if self._size <= LARGEST_ANSWER:
            self._body.append(data)

    def ended(self, error: UpstreamError | None) -> None:
        """The answer is there, or nothing more will come."""
        if self.done.done():
            return
        if error is None and self._size > LARGEST_ANSWER:
            error = UpstreamError(f"the answer is larger than {LARGEST_ANSWER} bytes")
        if error is None:
            self.done.set_result(Answer(self._status, self._headers, b"".join(self._body)))
        else:
            self.done.set_exception(error)


async def fetch(
    upstreams: Upstreams, backend: Backend, head: bytes, body: bytes, timeout_seconds: float
) -> Answer:
    """One exchange within ``timeout_seconds``. Raises UpstreamError."""
    gathering = Gathering()
    leg = None
    try:
        async with asyncio.timeout(timeout_seconds):
            leg = await upstreams.leg(backend)
            leg.ask(head, body, gathering, upstreams)
            return await gathering.done
    except TimeoutError:
        raise UpstreamError(f"no answer within {timeout_seconds:g} s") from None
    finally:
        if leg is not None and not gathering.done.done():
            leg.abort()
