"""Watches a restart that was asked for, to its end."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from remediator.commands.course import End, Phase, Step, step
from remediator.commands.exit_status import CommandError, ExitStatus
from remediator.commands.remote import Remote
from remediator.commands.show import printable

EVERY_SECONDS = 1.0
# So long the remediator may be away (it may be restarted itself), or take to decide.
MOST_SILENT_SECONDS = 60.0
MOST_UNDECIDED_SECONDS = 120.0

Tell = Callable[[Step], None]


class Watch:
    """Watches the restart of one incident."""

    def __init__(self, remote: Remote, incident: int, *, every: float = EVERY_SECONDS) -> None:
        self._remote = remote
        self._incident = incident
        self._every = every
        self.attempt: int | None = None

    def to_its_end(self, tell: Tell) -> End:
        """Tell each step until the end. Raises CommandError where it cannot be seen any more."""
        heard = began = time.monotonic()
        while True:
            now = time.monotonic()
            try:
                seen = step(*self._look())
                heard = now
            except CommandError as error:
                if error.status is not ExitStatus.UNREACHABLE or now - heard > MOST_SILENT_SECONDS:
                    raise
                time.sleep(self._every)
                continue
            if isinstance(seen, End):
                return seen
            tell(seen)
            if seen.phase is not Phase.DECIDE:
                began = now
            elif now - began > MOST_UNDECIDED_SECONDS and not seen.said.startswith("attempt "):
                raise CommandError(
                    f"incident {self._incident} was not decided about within "
                    f"{MOST_UNDECIDED_SECONDS:g} s; it stays open",
                    ExitStatus.REFUSED,
                )
            time.sleep(self._every)

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
        yield _Bars(progress)


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

    def __call__(self, now: Step) -> None:
        for phase, bar in self._bars.items():
            if phase is not now.phase:
                self._progress.update(bar, total=1.0, completed=1.0)
        if now.phase not in self._bars:
            self._bars[now.phase] = self._progress.add_task(now.phase, total=None, said="")
        self._progress.update(
            self._bars[now.phase],
            total=now.expected,
            # A load that takes longer than expected is not over.
            completed=min(now.seconds, 0.99 * now.expected) if now.expected else now.seconds,
            said=printable(now.said),
        )
