"""Looks at servers until something is proven, or once and remembers."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from exporter.check.conclusion import Looked, Outcome, outcome, settled
from exporter.check.state_file import Remembered, StateFile
from exporter.memory import Memory, Snapshot
from exporter.poller import Poller
from fleet.answer import Result
from fleet.backend import Backend
from fleet.judgement import WAITS_OF_PROOF
from fleet.settings import ExporterSettings
from fleet.state import State

# A hang may begin just after a look, and be proven just after another; one more for a lost one.
SPARE_INTERVALS = 3
# As the remediator's answer_within.
LAST_QUESTION_SECONDS = 30.0


@dataclass(frozen=True)
class Found:
    """What a check of one backend came to, and the last look at it."""

    outcome: Outcome
    snapshot: Snapshot


def patience(backend: Backend, settings: ExporterSettings) -> float:
    """Seconds after which a foreground check gives up: whatever can be proven is proven by then.

    An engine is idle for a wait before it is asked, and two waits of silence are proof.
    """
    waits = WAITS_OF_PROOF + (0 if settings.answer_every is None else 1)
    return backend.warm_up + waits * backend.wait + SPARE_INTERVALS * settings.interval


class Check:
    """One backend that is looked at until the outcome is known."""

    def __init__(
        self,
        backend: Backend,
        settings: ExporterSettings,
        *,
        remembered: Remembered | None = None,
        short_patience: float | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.backend = backend
        self._settings = settings
        self._monotonic = monotonic
        self._last_question = LAST_QUESTION_SECONDS if short_patience is None else short_patience
        self._since = monotonic() if remembered is None else remembered.since
        self._dead_looks = 0 if remembered is None else remembered.dead_looks
        self._poller = Poller(
            backend,
            settings,
            Memory(),
            history=None if remembered is None else remembered.history,
            patience=short_patience,
            monotonic=monotonic,
        )

    def look(self) -> Looked:
        """Look once more."""
        self.snapshot = self._poller.poll()
        dead = self.snapshot.judgement.backend.state is State.ENGINE_DEAD
        self._dead_looks = self._dead_looks + 1 if dead else 0
        return self._looked()

    def settle(self) -> Looked:
        """Wait for the end of a short request that is open."""
        self.snapshot = self._poller.settle() or self.snapshot
        return self._looked()

    def remembered(self) -> Remembered:
        """What the next call has to know."""
        return Remembered(self.snapshot.history, self._dead_looks, self._since)

    def close(self) -> None:
        """Close the connections."""
        self._poller.close()

    def _looked(self) -> Looked:
        return Looked(
            self.snapshot.history,
            self.snapshot.judgement,
            self._dead_looks,
            asks=self._settings.answer_every is not None,
            seconds=self._monotonic() - self._since,
        )

    def concluded(self) -> Outcome:
        """The outcome where no look follows in this call."""
        looked = self.settle()
        found = settled(looked)
        return self._after_a_last_question(looked) if found is Outcome.PROVEN else found

    def _after_a_last_question(self, looked: Looked) -> Outcome:
        """What is proven where the gauges may be stale: what the engine itself answers to that.

        Releases before 0.20, which do not tell what requests wait for, keep their last busy gauges
        when every client has hung up, until the next step. So an engine that by its page has been
        silent for two waits is asked for one token, as the remediator does before a restart.
        """
        stuck = [
            name
            for name, verdict in looked.judgement.engines.items()
            if verdict.state is State.STUCK
        ]
        engines = looked.history.engines
        shown = [name for name in stuck if engines[name].asked is None]
        stale = [name for name in shown if engines[name].reading.waiting_capacity is None]
        if not stuck or stale != stuck:
            return Outcome.PROVEN
        if self._settings.answer_every is None:
            return Outcome.CANNOT_JUDGE
        answers = [self._poller.ask_now(name, timeout=self._last_question) for name in stale]
        silent = any(answer.result is Result.UNANSWERED for answer in answers)
        errors = any(answer.result is Result.ERROR for answer in answers)
        if silent:
            return Outcome.PROVEN
        return Outcome.CANNOT_JUDGE if errors else Outcome.HEALTHY

    def run(self, stop: threading.Event, seen: Callable[[str, Snapshot], None]) -> Found:
        """Look at the interval until the outcome is known; ``seen`` is told of every look."""
        give_up = patience(self.backend, self._settings)
        due = self._monotonic()
        while True:
            looked = self.look()
            seen(self.backend.name, self.snapshot)
            found = outcome(looked, patience=self.backend.wait)
            if found is Outcome.PROVEN:
                found = self._after_a_last_question(looked)
            if found is Outcome.UNDECIDED and looked.seconds >= give_up:
                found = Outcome.CANNOT_JUDGE
            due += self._settings.interval
            if found is not Outcome.UNDECIDED:
                return Found(found, self.snapshot)
            if stop.wait(max(0.0, due - self._monotonic())):
                return Found(Outcome.CANNOT_JUDGE, self.snapshot)


def until_known(
    backends: tuple[Backend, ...],
    settings: ExporterSettings,
    stop: threading.Event,
    seen: Callable[[str, Snapshot], None],
) -> Mapping[str, Found]:
    """Look at all backends at once, each until its outcome is known."""
    found: dict[str, Found] = {}

    def check(backend: Backend) -> None:
        one = Check(backend, settings)
        try:
            found[backend.name] = one.run(stop, seen)
        finally:
            one.close()

    threads = [
        threading.Thread(target=check, args=(backend,), name=f"check-{backend.name}", daemon=True)
        for backend in backends
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def once(
    backends: tuple[Backend, ...],
    settings: ExporterSettings,
    state: StateFile,
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> Mapping[str, Found]:
    """Look once at each backend, and go on from what earlier calls remembered.

    An idle engine is asked within the call, for a read's time: what meets with silence is asked
    again by each call, and the two waits span the calls. Raises StateFileError.
    """
    found = {}
    with state.held():
        known = state.load(backends, monotonic())
        kept = {}
        for backend in backends:
            remembered = known.get(backend.name)
            one = Check(
                backend,
                _asking_again(settings, remembered),
                remembered=remembered,
                short_patience=settings.timeout,
                monotonic=monotonic,
            )
            one.look()
            found[backend.name] = Found(one.concluded(), one.snapshot)
            kept[backend.name] = one.remembered()
            one.close()
        state.save(kept, backends)
    return found


def _asking_again(settings: ExporterSettings, remembered: Remembered | None) -> ExporterSettings:
    """Where the last request met with silence the next one is due at once."""
    if remembered is None or settings.answer_every is None:
        return settings
    engines = remembered.history.engines.values()
    silent = any(engine.asked is not None for engine in engines)
    return replace(settings, answer_every=0.0) if silent else settings
