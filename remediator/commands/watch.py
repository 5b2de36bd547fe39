"""Watches a restart that was asked for, to its end."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from remediator.commands.course import End, Phase, Step, step
from remediator.commands.exit_status import CommandError, ExitStatus
from remediator.commands.remote import Remote
from remediator.commands.show import printable


@dataclass(frozen=True)
class Patience:
    """In seconds: between two looks, and how long the remediator may be away, or may not decide.

    It is away while it is restarted itself.
    """

    every: float = 0.5
    silent: float = 60.0
    undecided: float = 120.0


PATIENCE = Patience()
Tell = Callable[[Step], None]


class Watch:
    """Watches the restart of one incident."""

    def __init__(self, remote: Remote, incident: int, patience: Patience = PATIENCE) -> None:
        self._remote = remote
        self._incident = incident
        self._patience = patience
        self.attempt: int | None = None

    def to_its_end(self, tell: Tell) -> End:
        """Tell each step until the end. Raises CommandError where it cannot be seen any more."""
        heard = decided = time.monotonic()
        while True:
            now = time.monotonic()
            seen = None
            try:
                seen = step(*self._look())
                heard = now
            except CommandError as error:
                silent = now - heard > self._patience.silent
                if error.status is not ExitStatus.UNREACHABLE or silent:
                    raise
            if isinstance(seen, End):
                return seen
            if seen is not None:
                tell(seen)
                if seen.phase is not Phase.DECIDE or seen.waits:
                    decided = now
            if now - decided > self._patience.undecided:
                raise CommandError(
                    f"incident {self._incident} was not decided about within "
                    f"{self._patience.undecided:g} s; it stays open",
                    ExitStatus.REFUSED,
                )
            time.sleep(self._patience.every)

    def _look(self) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
        incident = self._remote.get("incidents", self._incident)
        attempts = incident["attempts"]
        if not attempts:
            return incident, None
        self.attempt = attempts[0]["id"]
        return incident, self._remote.get("attempts", attempts[0]["id"])


@contextmanager
def telling() -> Iterator[Tell]:
    """Tells steps on stderr: as bars on a terminal, as lines elsewhere, one for each change."""
    console = Console(file=sys.stderr, highlight=False)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (
        TextColumn("{task.description:<16}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[said]}", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        bars = _Bars(progress)
        yield bars
        bars.end()


class _Lines:
    def __init__(self) -> None:
        self._last: tuple[Phase, str] | None = None

    def __call__(self, now: Step) -> None:
        if (now.phase, now.said) != self._last:
            print(f"{now.phase}: {printable(now.said)}", file=sys.stderr, flush=True)
            self._last = (now.phase, now.said)


class _Bars:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: dict[Phase, TaskID] = {}

    def end(self, but: Phase | None = None) -> None:
        """Fill every bar but that of one phase: they are over."""
        for phase, bar in self._bars.items():
            if phase is not but:
                self._progress.update(bar, total=1.0, completed=1.0)

    def __call__(self, now: Step) -> None:
        self.end(but=now.phase)
        if now.phase not in self._bars:
            self._bars[now.phase] = self._progress.add_task(now.phase, total=None, said="")
        self._progress.update(
            self._bars[now.phase],
            total=now.expected,
            # A load that takes longer than expected is not over.
            completed=min(now.seconds, 0.99 * now.expected) if now.expected else now.seconds,
            said=printable(now.said),
        )
