"""Watches the backends of fleet.yml and serves what it makes of them."""

import contextlib
import logging
import resource
import signal
import sys
import threading
from collections.abc import Sequence

from waitress.server import create_server

from exporter.collector import FleetCollector
from exporter.discovery.file_sd import FileSD
from exporter.memory import Memory
from exporter.watch import Watch
from exporter.web import create_app
from fleet.discovery import Files
from fleet.family import registry
from fleet.flags import flags
from fleet.listen import Listen
from fleet.settings import Settings, SettingsError, load

CANNOT_LISTEN = CANNOT_SERVE = 1
BAD_SETTINGS = 2
PORT = 9109
DESCRIPTION = "Reads vLLM backends at a fixed interval and publishes their state as metrics."

log = logging.getLogger("exporter")


def main(argv: Sequence[str], *, commands: Sequence[str] = ()) -> int:
    """Run until SIGTERM or SIGINT. Returns 0, 1 if it cannot serve, 2 if the settings are bad.

    ``commands`` are named in the help: other things that the program does.
    """
    parser = flags("vllm-exporter", DESCRIPTION, port=PORT)
    parser.epilog = f"commands, each with a --help of its own: {', '.join(commands)}"
    args = parser.parse_args(argv)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="time=%(asctime)s level=%(levelname)s %(message)s",
    )
    try:
        settings = load(args.config_file)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return BAD_SETTINGS
    if args.config_check:
        return _check(settings)
    return _serve(settings, args.listen)


def _check(settings: Settings) -> int:
    """Say whether the settings are valid, and the files of targets that they name."""
    bad = [
        f"{settings.file}: {source.name}: {failure}"
        for source in settings.discovery
        if isinstance(source.lookup, Files)
        for failure in FileSD(source.lookup).look().failures
    ]
    if bad:
        print("\n".join(bad), file=sys.stderr)
        return BAD_SETTINGS
    many, more = len(settings.backends), len(settings.discovery)
    sources = f" and {more} source{'' if more == 1 else 's'} of others" if more else ""
    print(f"{settings.file}: {many} backend{'' if many == 1 else 's'}{sources}, valid")
    return 0


def _allow_files() -> None:
    """Raise the soft limit of open files to the hard one: a backend takes a connection each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _serve(settings: Settings, listen: Listen) -> int:
    _allow_files()
    memory = Memory()
    watch = Watch(settings, memory)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: watch.end())
    signal.signal(signal.SIGHUP, lambda *_: watch.reload_soon())
    collector = FleetCollector(memory, watch.standing)
    app = create_app(memory, registry(collector), watch.standing, watch.reload)
    try:
        sockets = [listen.bound()]
    except OSError as error:
        print(f"--web.listen-address: {listen}: {error.strerror}", file=sys.stderr)
        return CANNOT_LISTEN
    # poll() and not select(), which cannot wait for anything once a thousand backends are read.
    server = create_server(app, sockets=sockets, threads=4, asyncore_use_poll=True)
    failed = threading.Event()

    def serve() -> None:
        try:
            server.run()
        except Exception:
            log.exception("event=web_failed")
            failed.set()
            watch.end()

    # Ends with the program: its server cannot be closed while its own threads use it.
    threading.Thread(target=serve, name="web", daemon=True).start()
    many = len(settings.backends)
    log.info(
        "event=started listen=%s backends=%d sources=%d", listen, many, len(settings.discovery)
    )
    watch.run()
    log.info("event=stopping")
    watch.close()
    return CANNOT_SERVE if failed.is_set() else 0
