"""Keeps the pollers in step with fleet.yml and with what its sources find.

One thread, the main one, does all of it: signals, pages and sources only leave a wish.
"""

import enum
import json
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from exporter.discovery.merge import Fleet, merged
from exporter.discovery.scout import Scout
from exporter.memory import Memory
from exporter.roster import Roster
from exporter.standing import SourceStanding, Standing
from fleet.discovery import Source
from fleet.settings import Settings, SettingsError, load

log = logging.getLogger(__name__)

# How long a reload waits for its sources; what is found later is taken up when it comes.
LOOK_SECONDS = 10.0
# How long somebody who asks for a reload waits for its end.
RELOAD_SECONDS = 30.0
STOP_IS_SEEN_EVERY = 0.1


class ReloadBusyError(Exception):
    """Another reload is under way, or this one takes long; the sentence says which."""


class _Wish(enum.Enum):
    END = enum.auto()
    FOUND = enum.auto()
    RELOAD = enum.auto()


@dataclass(frozen=True)
class _Asked:
    """A reload that somebody waits for; the answer is its problems."""

    answer: "queue.SimpleQueue[tuple[str, ...]]" = field(default_factory=queue.SimpleQueue)


class Watch:
    """The watch of one fleet.yml, reloaded when that is wished.

    Invariant: a file with a mistake changes nothing, and a source that fails keeps what it said.
    """

    def __init__(
        self, settings: Settings, memory: Memory, *, wall: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._wall = wall
        self._roster = Roster(memory)
        # Its put() may interrupt itself, so that a signal handler can use it.
        self._wishes: queue.SimpleQueue[_Wish | _Asked] = queue.SimpleQueue()
        self._ending = False
        self._reloading = threading.Lock()
        self._scouts = tuple(self._scout(source, {}) for source in settings.discovery)
        self._fleet = Fleet(settings.backends, (0,) * len(self._scouts), ())
        # With how many each gave and whether its first look is in that: one value for who asks.
        self._sources = tuple((scout, 0, False) for scout in self._scouts)
        self._reload_succeeded = True
        self._reloaded_at = wall()

    def end(self) -> None:
        """Have ``run`` return. For signal handlers."""
        self._ending = True
        self._wishes.put(_Wish.END)

    def reload_soon(self) -> None:
        """Have fleet.yml read again; the log says how that went. For signal handlers."""
        self._wishes.put(_Wish.RELOAD)

    def reload(self, *, timeout: float = RELOAD_SECONDS) -> tuple[str, ...]:
        """Have fleet.yml read again and wait for the end; what is wrong, in sentences.

        For other threads than the one of ``run``. Raises ReloadBusyError.
        """
        if not self._reloading.acquire(blocking=False):
            raise ReloadBusyError("another reload is under way: ask again")
        try:
            asked = _Asked()
            self._wishes.put(asked)
            return asked.answer.get(timeout=timeout)
        except queue.Empty:
            raise ReloadBusyError(
                f"the reload is not over after {timeout:g} s: the log will say how it ends"
            ) from None
        finally:
            self._reloading.release()

    def standing(self) -> Standing:
        """What is watched now. For any thread."""
        sources = self._sources
        return Standing(
            settings=self._settings.exporter,
            backends=tuple(backend.name for backend in self._fleet.backends),
            sources=tuple(
                SourceStanding(scout.source.name, found, scout.failures, has_looked)
                for scout, found, has_looked in sources
            ),
            not_running=(
                *self._roster.not_running,
                *(scout.thread.name for scout, _, _ in sources if scout.has_ended),
            ),
            reload_succeeded=self._reload_succeeded,
            reloaded_at=self._reloaded_at,
        )

    def run(self) -> None:
        """Watch until ``end`` is called."""
        self._apply()
        for scout in self._scouts:
            scout.start()
        while not self._ending:
            wish = self._wishes.get()
            if wish is _Wish.FOUND:
                self._take_up()
            elif wish is _Wish.RELOAD:
                self._reload()
            elif isinstance(wish, _Asked):
                wish.answer.put(self._reload())

    def close(self) -> None:
        """End all that runs, within one read's time."""
        for scout in self._scouts:
            scout.stop()
        self._roster.close(self._settings.exporter.timeout + 1.0)

    def _reload(self) -> tuple[str, ...]:
        try:
            settings = load(self._settings.file)
            problems = self._follow(settings)
        except SettingsError as error:
            self._reload_succeeded = False
            problems = error.problems
        except Exception:
            log.exception("event=reload_failed")
            self._reload_succeeded = False
            return ("the reload failed here, see the log",)
        for problem in problems:
            log.error("event=reload_failed why=%s", json.dumps(problem, ensure_ascii=False))
        if not problems:
            log.info("event=reloaded backends=%d", len(self._fleet.backends))
        return problems

    def _follow(self, settings: Settings) -> tuple[str, ...]:
        """Put new settings in force; what its sources failed in, in sentences."""
        before = {(scout.source.name, scout.source.lookup): scout for scout in self._scouts}
        # So that a source that was only renamed or added to loses nothing if it fails just now.
        known: dict[Any, Any] = {}
        for scout in self._scouts:
            known |= scout.known
        scouts, looks = [], []
        for source in settings.discovery:
            kept = before.pop((source.name, source.lookup), None)
            if kept is not None:
                kept.source = source
            scouts.append(kept or self._scout(source, known))
            looks.append(scouts[-1].look_now() if kept else scouts[-1].start())
        self._wait_for(looks)
        self._settings = settings
        self._scouts = tuple(scouts)
        self._apply()
        for scout in before.values():
            scout.stop()
        self._reload_succeeded = True
        self._reloaded_at = self._wall()
        late = [
            f"{scout.source.name}: looking takes longer than {LOOK_SECONDS:g} s"
            for scout, look in zip(scouts, looks, strict=True)
            if not look.is_set()
        ]
        failed = [
            f"{scout.source.name}: {failure}"
            for scout in scouts
            for failure in scout.finding.failures
        ]
        return (*failed, *late)

    def _wait_for(self, looks: list[threading.Event]) -> None:
        deadline = time.monotonic() + LOOK_SECONDS
        for look in looks:
            while not self._ending and time.monotonic() < deadline:
                if look.wait(STOP_IS_SEEN_EVERY):
                    break

    def _take_up(self) -> None:
        try:
            self._apply()
        except Exception:
            # A bug in one of them must not end the watch of all.
            log.exception("event=apply_failed")

    def _apply(self) -> None:
        # Before what they found, so that who has looked is never without it.
        looked = tuple(scout.has_looked for scout in self._scouts)
        fleet = merged(
            self._settings.backends,
            [(scout.source, scout.finding.targets) for scout in self._scouts],
            interval=self._settings.exporter.interval,
        )
        for warning in fleet.warnings:
            if warning not in self._fleet.warnings:
                log.warning("event=backend_left_out why=%s", json.dumps(warning))
        self._fleet = fleet
        self._sources = tuple(zip(self._scouts, fleet.found, looked, strict=True))
        self._roster.apply(fleet.backends, self._settings.exporter)

    def _scout(self, source: Source, known: dict[Any, Any]) -> Scout:
        return Scout(source, lambda: self._wishes.put(_Wish.FOUND), known)
