"""Direct looks at a backend: the proof before a restart, and whether it came back after one.

The short request is never sent before two looks have shown no sign of life, and never while an
earlier one of ours is open: it takes a slot from nobody.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime

from fleet.answer import Answer, Result, ask
from fleet.backend import Backend
from fleet.fetch import ENGINE_IS_DEAD, HEALTH, METRICS, Failure, Fetcher, Page, Trouble
from fleet.history import may_be_paused
from fleet.reading import Reading
from fleet.settings import Mode, RemediatorSettings
from fleet.witness import Witness
from remediator.incident import Attempt
from remediator.proof import Health, Look, Proof, Request, Sight, saw
from remediator.recovery import Aftermath, new_process

PROGRAM = "remediator"
LOOK_SECONDS = 5.0
LOOKS = 4
SECOND_LOOK_SECONDS = 1.0


class Verifier:
    """Looks at backends. May be used from several threads; each call has connections of its own."""

    def __init__(
        self,
        settings: RemediatorSettings,
        clock: Callable[[], datetime],
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """``clock`` gives wall time, for people; durations are measured by the monotonic clock."""
        self._confirm_for = settings.confirm_for
        self._answer_within = settings.answer_within
        self._clock = clock
        self._sleep = sleep

    def prove(self, backend: Backend, engine: str | None) -> Proof:
        """Look at one engine for ``confirm_for`` seconds; stop early at a sign of life.

        ``engine`` None means every engine of the backend. Takes ``confirm_for`` or twice
        ``answer_within`` seconds, whichever is longer, and the time of the last look.
        """
        with closing(Fetcher(backend, PROGRAM)) as fetcher:
            return self._prove(backend, fetcher, engine)

    def after(self, backend: Backend, attempt: Attempt, *, ask_it: bool) -> Aftermath:
        """Look at a backend after an attempt on it.

        A new process that works on nothing is sent the short request, and with ``ask_it`` the
        same process too; in shadow mode none is. Takes at most twice ``answer_within`` and two
        looks.
        """
        with closing(Fetcher(backend, PROGRAM)) as fetcher:
            reading = _read(fetcher)
            if isinstance(reading, Failure):
                return Aftermath(None, reading.why)
            may_be_new = reading.start_time is None or new_process(attempt.before, reading)
            if attempt.mode is Mode.SHADOW or not (ask_it or may_be_new):
                return Aftermath(reading)
            self._sleep(SECOND_LOOK_SECONDS)
            later = _read(fetcher)
            if isinstance(later, Failure):
                return Aftermath(None, later.why)
            seen = saw([Look(reading, Health.OK), Look(later, Health.OK)], attempt.engine)
            if seen.sight is Sight.MOVED:
                return Aftermath(later, moved=True)
            answer = ask(fetcher, _rank(later, attempt.engine), timeout=self._answer_within)
            return Aftermath(later, request=_request(answer), request_why=answer.why)

    def _prove(self, backend: Backend, fetcher: Fetcher, engine: str | None) -> Proof:
        began = time.monotonic()
        pause = self._confirm_for / (LOOKS - 1)
        looks = [_look(fetcher)]
        self._sleep(pause)
        looks.append(_look(fetcher))
        paused = saw(looks, engine).sight is Sight.STILL and _is_paused(fetcher, looks)
        asking = None
        if _nothing_lives(looks, engine) and not paused:
            asking = Asking(backend, looks[-1].reading, engine, self._answer_within)
            while asking.is_alive() or time.monotonic() - began < self._confirm_for:
                self._sleep(pause)
                looks.append(replace(_look(fetcher), asked=True))
        answer = asking.answer if asking else None
        return Proof(
            at=self._clock(),
            seconds=time.monotonic() - began,
            saw=saw(looks, engine),
            dead=all(look.health is Health.DEAD for look in looks),
            request=_request(answer) if answer else Request.NOT_SENT,
            request_why=answer.why if answer else "not sent",
            paused=paused,
            reading=next((look.reading for look in reversed(looks) if look.reading), None),
        )


class Asking(threading.Thread):
    """One short request in a thread of its own, so that the looks go on meanwhile."""

    def __init__(
        self, backend: Backend, reading: Reading | None, engine: str | None, timeout: float
    ) -> None:
        super().__init__(name=f"ask {backend.name}", daemon=True)
        self._backend = backend
        self._rank = _rank(reading, engine)
        self._timeout = timeout
        self.answer = Answer(Result.ERROR, 0.0, "broken off")
        self.start()

    def run(self) -> None:
        """Ask, and keep the answer."""
        with closing(Fetcher(self._backend, PROGRAM)) as fetcher:
            self.answer = ask(fetcher, self._rank, timeout=self._timeout)


def _nothing_lives(looks: Sequence[Look], engine: str | None) -> bool:
    still = saw(looks, engine).sight in (Sight.STILL, Sight.REFUSED)
    return still or all(look.health is Health.DEAD for look in looks)


def _rank(reading: Reading | None, engine: str | None) -> str | None:
    """The data-parallel rank to ask, where there is more than one."""
    return engine if reading is not None and len(reading.engines) > 1 else None


def _request(answer: Answer) -> Request:
    return Request(answer.result)


def _look(fetcher: Fetcher) -> Look:
    read, health = _read(fetcher), _health(fetcher)
    if isinstance(read, Failure):
        return Look(None, health, read.why, refused=read.kind is Trouble.REFUSED)
    return Look(read, health)


def _read(fetcher: Fetcher) -> Reading | Failure:
    page = fetcher.get(METRICS, timeout=LOOK_SECONDS)
    return page if isinstance(page, Failure) else Reading.from_page(page.text)


def _health(fetcher: Fetcher) -> Health:
    match fetcher.get(HEALTH, timeout=LOOK_SECONDS):
        case Page():
            return Health.OK
        case Failure(status=status) if status == ENGINE_IS_DEAD:
            return Health.DEAD
        case Failure(kind=Trouble.REFUSED):
            return Health.REFUSED
        case _:
            return Health.UNKNOWN


def _is_paused(fetcher: Fetcher, looks: Sequence[Look]) -> bool:
    """Whether the server says so, or may be: weights are updated there, and it does not tell."""
    told = Witness(fetcher).paused(timeout=LOOK_SECONDS)
    readings = (look.reading for look in looks if look.reading is not None)
    return any(may_be_paused(reading, told=told) for reading in readings)
