"""A client's side: streams that were cut are gone on with, and the caller sees one stream.

Transports for httpx, to be put under any client, OpenAI's too::

    client = openai.OpenAI(http_client=httpx.Client(transport=ResumingTransport()))

A stream is gone on with when it ends without [DONE]: cut off, or with the gateway's shutdown frame.
Streams of servers that are not this gateway, and all that is no stream, pass untouched.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import anyio
import httpx

from gateway.frames import Event, Events
from gateway.splice import Mode
from gateway.tries import InterruptedStreamError, Patience, Tries, is_stream

__all__ = [
    "AsyncResumingTransport",
    "InterruptedStreamError",
    "Patience",
    "ResumingTransport",
    "aevents",
    "events",
]

ENDED = "the connection ended before the stream did"


class ResumingTransport(httpx.BaseTransport):
    """Goes on with streams that were cut.

    ``others``: origins of further gateways that share the database, ``https://host[:port]``; one
    is asked at first where nobody answers at the request's own, and in turn when a stream was cut.
    """

    def __init__(
        self,
        transport: httpx.BaseTransport | None = None,
        *,
        others: Sequence[str] = (),
        patience: Patience = Patience(),  # noqa: B008 -- it is frozen
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._inner = transport if transport is not None else httpx.HTTPTransport()
        self._others = tuple(others)
        self._patience = patience
        self._sleep = sleep

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; see httpx."""
        if request.method != "POST":
            return self._inner.handle_request(request)
        request.read()
        tries = Tries(request, self._others, self._patience)
        response = self._first(tries)
        if response.status_code != httpx.codes.OK or not is_stream(response.headers):
            return response
        stream = _Stream(self._inner, response, tries, self._sleep)
        return _answer(response, stream)

    def _first(self, tries: Tries) -> httpx.Response:
        *others, last = enumerate(tries.first_requests())
        for place, request in others:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                tries.began_at(place)
                return self._inner.handle_request(request)
        tries.began_at(last[0])
        return self._inner.handle_request(last[1])

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


class _Stream(httpx.SyncByteStream):
    """The whole events of one logical stream."""

    def __init__(
        self,
        inner: httpx.BaseTransport,
        response: httpx.Response,
        tries: Tries,
        sleep: Callable[[float], None],
    ) -> None:
        self._inner = inner
        self._response = response
        self._tries = tries
        self._sleep = sleep

    def __iter__(self) -> Iterator[bytes]:
        tries, splice = self._tries, self._tries.splice
        while True:
            try:
                for data in _raw(self._response):
                    if given := tries.feed(data):
                        yield given
                    if splice.mode in (Mode.SHUT_DOWN, Mode.BROKEN):
                        break
                tries.cut(ENDED)
            except httpx.TransportError as error:
                if splice.mode is not Mode.COMPLETE and not splice.can_go_on:
                    if rest := splice.rest():
                        yield rest
                    raise
                tries.cut(_said(error))
            self._response.close()
            if not splice.can_go_on:
                break
            self._response = self._again()
        if rest := splice.rest():
            yield rest

    def _again(self) -> httpx.Response:
        tries = self._tries
        while True:
            self._sleep(tries.wait())
            try:
                response = self._inner.handle_request(tries.request())
                if tries.accepts(response.status_code, response.headers):
                    return response
                body = response.read()
                response.close()
            except httpx.TransportError as error:
                tries.failed(_said(error))
            else:
                tries.refused(response.status_code, response.headers, body)

    def close(self) -> None:
        self._response.close()


class AsyncResumingTransport(httpx.AsyncBaseTransport):
    """The same, for asynchronous clients."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        others: Sequence[str] = (),
        patience: Patience = Patience(),  # noqa: B008 -- it is frozen
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._inner = transport if transport is not None else httpx.AsyncHTTPTransport()
        self._others = tuple(others)
        self._patience = patience
        self._sleep = sleep

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; see httpx."""
        if request.method != "POST":
            return await self._inner.handle_async_request(request)
        await request.aread()
        tries = Tries(request, self._others, self._patience)
        response = await self._first(tries)
        if response.status_code != httpx.codes.OK or not is_stream(response.headers):
            return response
        stream = _AsyncStream(self._inner, response, tries, self._sleep)
        return _answer(response, stream)

    async def _first(self, tries: Tries) -> httpx.Response:
        *others, last = enumerate(tries.first_requests())
        for place, request in others:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                tries.began_at(place)
                return await self._inner.handle_async_request(request)
        tries.began_at(last[0])
        return await self._inner.handle_async_request(last[1])

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _AsyncStream(httpx.AsyncByteStream):
    """The whole events of one logical stream."""

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        response: httpx.Response,
        tries: Tries,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._inner = inner
        self._response = response
        self._tries = tries
        self._sleep = sleep

    async def __aiter__(self) -> AsyncIterator[bytes]:
        tries, splice = self._tries, self._tries.splice
        while True:
            try:
                async for data in _araw(self._response):
                    if given := tries.feed(data):
                        yield given
                    if splice.mode in (Mode.SHUT_DOWN, Mode.BROKEN):
                        break
                tries.cut(ENDED)
            except httpx.TransportError as error:
                if splice.mode is not Mode.COMPLETE and not splice.can_go_on:
                    if rest := splice.rest():
                        yield rest
                    raise
                tries.cut(_said(error))
            await self._response.aclose()
            if not splice.can_go_on:
                break
            self._response = await self._again()
        if rest := splice.rest():
            yield rest

    async def _again(self) -> httpx.Response:
        tries = self._tries
        while True:
            await self._sleep(tries.wait())
            try:
                response = await self._inner.handle_async_request(tries.request())
                if tries.accepts(response.status_code, response.headers):
                    return response
                body = await response.aread()
                await response.aclose()
            except httpx.TransportError as error:
                tries.failed(_said(error))
            else:
                tries.refused(response.status_code, response.headers, body)

    async def aclose(self) -> None:
        await self._response.aclose()


def events(
    client: httpx.Client, url: str, body: Mapping[str, object]
) -> Iterator[Mapping[str, object]]:
    """Ask for a stream, and return its events as they come; raises httpx.HTTPStatusError too."""
    with client.stream("POST", url, json={**body, "stream": True}) as response:
        if response.is_error:
            response.read()
        response.raise_for_status()
        cutter = Events()
        for data in response.iter_bytes():
            yield from _objects(cutter.feed(data))


async def aevents(
    client: httpx.AsyncClient, url: str, body: Mapping[str, object]
) -> AsyncIterator[Mapping[str, object]]:
    """The same, asynchronously."""
    async with client.stream("POST", url, json={**body, "stream": True}) as response:
        if response.is_error:
            await response.aread()
        response.raise_for_status()
        cutter = Events()
        async for data in response.aiter_bytes():
            for event in _objects(cutter.feed(data)):
                yield event


def _objects(raws: Sequence[bytes]) -> Iterator[Mapping[str, object]]:
    for raw in raws:
        data = Event.from_bytes(raw).data
        if data is not None and data != b"[DONE]":
            yield json.loads(data)


def _raw(response: httpx.Response) -> Iterator[bytes]:
    assert isinstance(response.stream, httpx.SyncByteStream)  # noqa: S101 -- of a sync transport
    return iter(response.stream)


def _araw(response: httpx.Response) -> AsyncIterator[bytes]:
    assert isinstance(response.stream, httpx.AsyncByteStream)  # noqa: S101 -- as above
    return aiter(response.stream)


def _answer(
    response: httpx.Response, stream: httpx.SyncByteStream | httpx.AsyncByteStream
) -> httpx.Response:
    return httpx.Response(
        response.status_code,
        headers=[(k, v) for k, v in response.headers.raw if k.lower() != b"content-length"],
        stream=stream,
        extensions=response.extensions,
    )


def _said(error: httpx.TransportError) -> str:
    return str(error) or type(error).__name__
