"""vllm-remediator: serves by default; a first word of the command line does something else."""

import importlib
import logging
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from fleet.family import registry
from fleet.flags import flags
from fleet.listen import Listen
from fleet.pipe import piped
from fleet.settings import RemediatorSettings, Settings, SettingsError, load
from remediator.alertmanager import Alertmanager
from remediator.collector import RemediatorCollector
from remediator.credentials import CredentialsError, check
from remediator.database import StorageError
from remediator.desk import Desk
from remediator.drain import Gateways
from remediator.evidence import FOLDER, Evidence
from remediator.journal import Journal
from remediator.locks import Locks
from remediator.patrol import Glance, Patrol
from remediator.peers import Peers
from remediator.remedy import Remedy
from remediator.restart.by_way import ByWay, lacking
from remediator.serve import Server
from remediator.store import Store
from remediator.tls import Renewed, TlsError
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
# Much less than the 5 ms of Python: a notification is not to wait for each of many busy threads.
SWITCH_SECONDS = 0.0002

log = logging.getLogger("remediator")


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for. Returns its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in COMMANDS:
        command = importlib.import_module(COMMANDS[argv[0]])
        return piped(lambda: int(command.main(argv[1:])))
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
        tls = _tls(settings, ours)
        if args.config_check:
            number = len(settings.backends)
            print(f"{args.config_file}: valid, mode: {ours.mode}, backends: {number}")
            return 0
        store = _store(settings, ours)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return BAD_SETTINGS
    try:
        return _serve(settings, ours, store, tls, args.listen)
    finally:
        store.close()


def _ours(settings: Settings) -> RemediatorSettings:
    """The remediator's section, with secrets and all that it restarts by. Raises SettingsError."""
    if settings.remediator is None:
        raise SettingsError((f"{settings.file}: remediator: is required by vllm-remediator",))
    try:
        check(settings.remediator)
    except CredentialsError as error:
        raise SettingsError((f"{settings.file}: remediator.{error}",)) from None
    sentences = lacking(settings.backends)
    if sentences:
        raise SettingsError(tuple(f"{settings.file}: {sentence}" for sentence in sentences))
    return settings.remediator


def _tls(settings: Settings, ours: RemediatorSettings) -> Renewed | None:
    try:
        return Renewed(ours.tls) if ours.tls is not None else None
    except TlsError as error:
        raise SettingsError((f"{settings.file}: remediator.{error}",)) from None


def _store(settings: Settings, ours: RemediatorSettings) -> Store:
    try:
        return Store(ours.database)
    except StorageError as error:
        raise SettingsError((f"{settings.file}: remediator.database: {error}",)) from None


def _evidence_folder(ours: RemediatorSettings, store: Store) -> Path | None:
    if ours.evidence_folder is not None or store.folder is None:
        return ours.evidence_folder
    return store.folder / FOLDER


def _serve(
    settings: Settings,
    ours: RemediatorSettings,
    store: Store,
    tls: Renewed | None,
    listen: Listen,
) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    journal = Journal()
    peers = Peers(
        Alertmanager(ours.alertmanager),
        Verifier(ours, _now),
        ByWay(),
        Evidence(_evidence_folder(ours, store), ours.evidence_timeout, ours.evidence_keep),
        Gateways(ours.gateway_token_file, ours.drain_timeout),
    )
    locks = Locks(store.database, ours.takeover_after)
    worker = Worker(Remedy(settings, ours, store, journal, peers, _now, stop), locks)
    patrol = Patrol(settings, store, locks, Glance(), _now)
    names = tuple(backend.name for backend in settings.backends)
    sys.setswitchinterval(SWITCH_SECONDS)
    own = registry(RemediatorCollector(ours.mode, names, store, journal, _now))
    app = create_app(Desk(ours, store, journal, worker, own, _now, settings))
    try:
        sock = listen.bound()
    except OSError as error:
        print(f"--web.listen-address: {listen}: {error.strerror}", file=sys.stderr)
        return CANNOT_LISTEN
    server = Server(app, sock, tls, most_bytes=MOST_BYTES)
    loop = threading.Thread(target=worker.run, name="worker", daemon=True)
    threading.Thread(
        target=patrol.run, args=(ours.patrol_every, stop), name="patrol", daemon=True
    ).start()
    server.start()
    loop.start()
    log.info("event=started mode=%s listen=%s backends=%d", ours.mode, listen, len(names))
    stop.wait()
    log.info("event=stopping")
    server.stop()
    worker.wake()
    loop.join(timeout=2.0)
    # What is not done by then is in the database, and taken up at the next start.
    worker.wait_idle(SHUTDOWN_SECONDS)
    locks.leave()
    return 0


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    sys.exit(main())
