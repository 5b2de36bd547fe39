"""The remediator as the benchmark starts it: the real one, with boundaries to be killed at.

It is put together from the same parts as by ``vllm-remediator``, and none of them knows of this.
"""

import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.crash.boundary import Boundaries, Kill
from benchmarks.crash.watched import (
    Gateways,
    WatchedAlerts,
    WatchedDatabase,
    WatchedDrainer,
    WatchedRestarter,
    WatchedSaver,
    WatchedWitness,
)
from fleet.family import registry
from fleet.listen import Listen
from fleet.settings import load
from remediator.alertmanager import Alertmanager
from remediator.collector import RemediatorCollector
from remediator.desk import Desk
from remediator.evidence import FOLDER, Evidence
from remediator.journal import Journal
from remediator.locks import Locks
from remediator.patrol import Glance, Patrol
from remediator.peers import Peers
from remediator.remedy import Remedy
from remediator.restart.command import Command
from remediator.serve import Server
from remediator.store import Store
from remediator.verify import Verifier
from remediator.webhook import MOST_BYTES, create_app
from remediator.worker import Worker


@dataclass(frozen=True)
class Start:
    """How one process is started.

    ``seen`` and ``gateways`` are the files of the boundaries that it comes to, and of what it tells
    its gateways.
    """

    fleet: Path
    port: int
    log: Path
    seen: Path
    gateways: Path
    kill: Kill | None


def run(start: Start) -> None:
    """Be a remediator until killed."""
    logging.basicConfig(filename=start.log, level=logging.INFO, format="%(asctime)s %(message)s")
    settings = load(start.fleet)
    ours = settings.remediator
    if ours is None:
        raise ValueError(start.fleet)
    seen = Boundaries(start.seen, start.kill)
    store = Store(ours.database, database=partial(WatchedDatabase, boundaries=seen))
    journal, stop = Journal(), threading.Event()
    peers = Peers(
        WatchedAlerts(Alertmanager(ours.alertmanager), seen),
        WatchedWitness(Verifier(ours, _now), seen),
        WatchedRestarter(Command(), seen),
        WatchedSaver(
            Evidence(start.fleet.parent / FOLDER, ours.evidence_timeout, ours.evidence_keep), seen
        ),
        WatchedDrainer(Gateways(start.gateways), seen),
    )
    locks = Locks(store.database, ours.takeover_after)
    worker = Worker(Remedy(settings, ours, store, journal, peers, _now, stop), locks)
    patrol = Patrol(settings, store, locks, Glance(), _now)
    names = tuple(backend.name for backend in settings.backends)
    own = registry(RemediatorCollector(ours.mode, names, store, journal, _now))
    app = create_app(Desk(ours, store, journal, worker, own, _now, settings))
    server = Server(app, Listen("127.0.0.1", start.port).bound(), None, most_bytes=MOST_BYTES)
    threading.Thread(target=worker.run, daemon=True).start()
    threading.Thread(target=patrol.run, args=(ours.patrol_every, stop), daemon=True).start()
    server.start()
    stop.wait()


def _now() -> datetime:
    return datetime.now(UTC)
