"""vllm-remediator: serves by default; a first word of the command line does something else."""

import importlib
import logging
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from waitress.server import create_server

from fleet.backend import Backend
from fleet.family import registry
from fleet.flags import flags
from fleet.listen import Listen
from fleet.settings import RemediatorSettings, Settings, SettingsError, load
from remediator.alertmanager import Alertmanager
from remediator.bearer import TokenError, token
from remediator.collector import RemediatorCollector
from remediator.database import StorageError
from remediator.desk import Desk
from remediator.evidence import Evidence
from remediator.journal import Journal
from remediator.locks import Locks
from remediator.patrol import Glance, Patrol
from remediator.peers import Drained, Peers
from remediator.remedy import Remedy
from remediator.restart.command import Command
from remediator.store import Store
from remediator.verify import Verifier
from remediator.webhook import MOST_BYTES, create_app
from remediator.worker import Worker

# By the module whose main(argv) does it. Imported only then: what serves needs none of them.
COMMANDS: Mapping[str, str] = {
    "status": "remediator.commands.status",
    "why": "remediator.commands.why",
    "history": "remediator.commands.history",
    "hold": "remediator.commands.hold",
    "release": "remediator.commands.release",
    "reset": "remediator.commands.reset",
    "restart": "remediator.commands.restart",
    "shadow": "remediator.commands.shadow",
    "lint": "remediator.lint.__main__",
}
CANNOT_LISTEN = 1
BAD_SETTINGS = 2
PORT = 9110
DESCRIPTION = "Restarts a vLLM backend when an alert asks for it and it is proven stuck."
SHUTDOWN_SECONDS = 5.0

log = logging.getLogger("remediator")


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for. Returns its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in COMMANDS:
        return int(importlib.import_module(COMMANDS[argv[0]]).main(argv[1:]))
    return serve(argv)


def serve(argv: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT. Returns 0, 1 if it cannot listen, 2 if the settings are bad."""
    parser = flags("vllm-remediator", DESCRIPTION, port=PORT)
    parser.epilog = f"commands, each with a --help of its own: {', '.join(COMMANDS)}"
    args = parser.parse_args(argv)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="time=%(asctime)s level=%(levelname)s %(message)s",
    )
    try:
        settings = load(args.config_file)
        ours = _ours(settings)
        if args.config_check:
            print(f"{args.config_file}: mode {ours.mode}, {len(settings.backends)} backends, valid")
            return 0
        store = _store(settings, ours)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return BAD_SETTINGS
    try:
        return _serve(settings, ours, store, args.listen)
    finally:
        store.close()


def _ours(settings: Settings) -> RemediatorSettings:
    """The remediator's section, with a token to compare with. Raises SettingsError."""
    if settings.remediator is None:
        raise SettingsError((f"{settings.file}: remediator: is required by vllm-remediator",))
    try:
        token(settings.remediator.token_file)
    except TokenError as error:
        raise SettingsError((f"{settings.file}: remediator.{error}",)) from None
    return settings.remediator


def _store(settings: Settings, ours: RemediatorSettings) -> Store:
    try:
        return Store(ours.database)
    except StorageError as error:
        raise SettingsError((f"{settings.file}: remediator.database: {error}",)) from None


def _serve(settings: Settings, ours: RemediatorSettings, store: Store, listen: Listen) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    journal = Journal()
    peers = Peers(
        Alertmanager(ours.alertmanager),
        Verifier(ours, _now),
        Command(),
        Evidence(store.folder),
        NoGateways(),
    )
    locks = Locks(store.database, ours.takeover_after)
    worker = Worker(Remedy(settings, ours, store, journal, peers, _now, stop), locks)
    patrol = Patrol(settings, store, locks, Glance(), _now)
    names = tuple(backend.name for backend in settings.backends)
    own = registry(RemediatorCollector(ours.mode, names, store, journal, _now))
    app = create_app(Desk(ours, store, journal, worker, own, _now, settings))
    try:
        sockets = [listen.bound()]
    except OSError as error:
        print(f"--web.listen-address: {listen}: {error.strerror}", file=sys.stderr)
        return CANNOT_LISTEN
    server = create_server(app, sockets=sockets, threads=4, max_request_body_size=8 * MOST_BYTES)
    web = threading.Thread(target=server.run, name="web", daemon=True)
    loop = threading.Thread(target=worker.run, name="worker", daemon=True)
    threading.Thread(
        target=patrol.run, args=(ours.patrol_every, stop), name="patrol", daemon=True
    ).start()
    web.start()
    loop.start()
    log.info("event=started mode=%s listen=%s backends=%d", ours.mode, listen, len(names))
    stop.wait()
    log.info("event=stopping")
    server.close()
    worker.wake()
    web.join(timeout=2.0)
    loop.join(timeout=2.0)
    # What is not done by then is in the database, and taken up at the next start.
    worker.wait_idle(SHUTDOWN_SECONDS)
    locks.leave()
    return 0


class NoGateways:
    """Stands in until gateways can be asked."""

    def drain(self, backend: Backend) -> Drained:
        return Drained(ok=True, why="", left=0)

    def undrain(self, backend: Backend) -> Drained:
        return Drained(ok=True, why="", left=0)


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    sys.exit(main())
