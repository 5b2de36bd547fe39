"""Serves: the listener, the looks, the sweeps, and the end of it all."""

import asyncio
import logging
import signal
import socket
from collections.abc import Coroutine, Iterable
from functools import partial
from typing import Any

from fleet.gateway import idle_after
from gateway.counts import Counts, Where
from gateway.desk import Desk
from gateway.ending import Ending
from gateway.ledger.database import StorageError
from gateway.looks import Looks
from gateway.mishap import outlived
from gateway.office import Office
from gateway.wire import Wire

SWEEP_SECONDS = 1.0
FORGET_SECONDS = 60.0

log = logging.getLogger("gateway")


async def serve(office: Office, desk: Desk, sock: socket.socket) -> None:
    """Answer requests on a listening socket until SIGTERM or SIGINT, then to the end of them."""
    loop = asyncio.get_running_loop()
    ending = Ending(office)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.told)
    # Whoever expects that settings are read again must not end all streams.
    loop.add_signal_handler(signal.SIGHUP, log.warning, "event=signal_ignored signal=SIGHUP")
    loop.set_exception_handler(partial(_seen, office.counts))
    looks = Looks(office)
    await looks.once()
    wires: set[Wire] = set()
    server = await loop.create_server(
        lambda: Wire(desk, office.settings.largest_body, wires, office.turn), sock=sock
    )
    async with asyncio.TaskGroup() as group:
        background = [
            group.create_task(looks.run()),
            group.create_task(_sweep(office, wires)),
            group.create_task(_forget(office)),
        ]
        await ending.run()
        for task in background:
            task.cancel()
    server.close()
    for wire in list(wires):
        wire.close()
    office.upstreams.close()


async def _sweep(office: Office, wires: set[Wire]) -> None:
    """Look over all requests and idle connections, again and again."""
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        sweep(office, wires)


def sweep(office: Office, wires: Iterable[Wire]) -> None:
    """Look over all of it once."""
    for request in list(office.in_flight.values()):
        office.sweep(request)
    office.finished.forget(office.now())
    now, settings = office.now(), office.settings
    idle = idle_after(settings.first_byte_after)
    for wire in list(wires):
        with outlived(office.counts, Where.SWEEP, "a connection"):
            wire.sweep(now, idle, settings.client_stall_after)


async def _forget(office: Office) -> None:
    """Delete what was kept of interrupted streams and has expired."""
    while True:
        await asyncio.sleep(FORGET_SECONDS)
        with outlived(office.counts, Where.FORGETTING, "interrupted streams"):
            try:
                await office.shelf.forget()
            except StorageError as error:
                log.warning("event=not_forgotten why=%r", str(error))


def _seen(counts: Counts, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio has nobody to tell: it is counted, and logged as ever."""
    counts.failed(Where.CALLBACK)
    loop.default_exception_handler(context)


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop."""
    import uvloop  # noqa: PLC0415 -- only where something is served

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)
