"""A remediator's site that shows everything its pages can show."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from fleet.settings import Mode
from remediator import episodes
from remediator.decision import Answer, Decision, Escalate, Hold, Reason
from remediator.incident import AttemptState, Incident
from remediator.notification import Status
from remediator.record import Start, Whose
from remediator.records import give_up
from remediator.store import Store
from tests.remediator import making
from tests.remediator.making import at
from tests.remediator.site import Site, site
from tests.remediator.stage import planned

HOSTILE = "<script>alert(1)</script><b>not bold</b>" + "x" * 90
NAMES = ("gpu-a", "gpu-b", "gpu-c", "gpu-d", "gpu-e", "gpu-f", "gpu-g", "a" * 63)


@contextmanager
def everything(folder: Path, names: Sequence[str] = NAMES, said: str = HOSTILE) -> Iterator[Site]:
    """Each situation that a backend can be in, and who put it there; ``said`` by a person."""
    backends = [making.backend(name, url=f"http://10.0.0.11:80/{name}") for name in names]
    backends[0] = replace(backends[0], gateways=("http://127.0.0.1:2",))
    backends.append(making.backend("router", restart=None))
    with site(folder, *backends) as made:
        store = made.stage.store
        _restarted(store, "gpu-a", at(-3000), AttemptState.RECOVERED, "a new process, and it works")
        _restarted(store, "gpu-b", at(-9000), AttemptState.STILL_STUCK, "a new process, but silent")
        _restarting(store, "gpu-c")
        _decided(
            store, "gpu-d", Hold(Reason.COOLING_DOWN, at(900), "restarted 5 minutes ago"), said
        )
        _decided(store, "gpu-e", Escalate(Reason.CANNOT_RESTART, "no restart in fleet.yml"), said)
        _decided(store, names[-1], Hold(Reason.HELD, at(900), said), said)
        with store.database.write() as connection:
            give_up(connection, "gpu-b", "3 restarts in a row did not help", at(-10))
        store.holds.add("gpu-f", at(7000), "alice <a@example.org>", said, at(0))
        store.holds.add("gpu-f", at(9000), "batch", "the nightly run", at(0))
        store.records.note(Start("gpu-a", at(-90000), at(-90000), Whose.FIRST))
        store.records.note(Start("gpu-a", at(-7200), at(-7200), Whose.FOREIGN))
        yield made


def _asked(store: Store, backend: str, fingerprint: str) -> Incident:
    store.incidents.note(
        [making.alert(backend=backend, fingerprint=fingerprint, starts_at=at(-600))], at(-590)
    )
    return store.incidents.newest(1)[0]


def _decided(store: Store, backend: str, decision: Decision, said: str) -> None:
    incident = _asked(store, backend, f"of {backend}"[:64])
    answers = (
        Answer("asked_for", "the alert's label remediate is 'restart'", stands_against=False),
        Answer("known_backend", said, stands_against=False),
        Answer("firing", "the alert has been firing since 11:50", stands_against=False),
        Answer("already_handled", "no attempt for it has ended well", stands_against=False),
        Answer("held", decision.why, stands_against=True),
    )
    with store.database.write() as connection:
        episodes.record(connection, incident, decision, at(-580), answers)


def _restarted(store: Store, backend: str, when: datetime, state: AttemptState, why: str) -> None:
    incident = _asked(store, backend, f"of {backend}")
    attempt = planned(store, incident, Mode.ACT, making.reading(), when)
    attempt = store.attempts.advance(
        attempt, AttemptState.ACTING, when, drained="12 streams were moved, none is left"
    )
    attempt = store.attempts.advance(attempt, AttemptState.STARTING, when, exit_status=0)
    end = when + timedelta(seconds=95)
    store.attempts.advance(attempt, state, end, why=why)
    store.incidents.note(
        [
            making.alert(
                status=Status.RESOLVED,
                fingerprint=incident.fingerprint,
                backend=backend,
                starts_at=at(-600),
                ends_at=at(-1),
            )
        ],
        at(-1),
    )


def _restarting(store: Store, backend: str) -> None:
    incident = _asked(store, backend, "c")
    attempt = planned(store, incident, Mode.ACT, making.reading(), at(10))
    store.attempts.advance(attempt, AttemptState.ACTING, at(12), drained="3 streams are left")
