"""vllm-exporter backtest: flags, the replay, and its report."""

import json
import sys
from collections.abc import Sequence
from contextlib import closing

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from exporter.backtest.document import document
from exporter.backtest.flags import Options, options
from exporter.backtest.prometheus import CannotTellError, Prometheus
from exporter.backtest.replay import replay
from exporter.backtest.report import Report
from exporter.backtest.tables import show

NONE, SOME, CANNOT_TELL = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the backtest. Returns 0 without a would-be restart, 1 with some, 2 if it cannot tell."""
    asked = options(sys.argv[1:] if argv is None else argv)
    try:
        report = _run(asked)
    except CannotTellError as error:
        print(error, file=sys.stderr)
        return CANNOT_TELL
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return CANNOT_TELL
    if asked.json:
        print(json.dumps(document(report), indent=2, ensure_ascii=False))
    else:
        show(report, Console(highlight=False, emoji=False))
    return SOME if report.restarts else NONE


class _Bar:
    """A progress bar on standard error, if that is a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self.shown = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self.shown.add_task("asking for targets", total=1.0)

    def at(self, done: float, what: str) -> None:
        """Show how far the replay has come."""
        self.shown.update(self._task, completed=done, description=what)


def _run(asked: Options) -> Report:
    bar = _Bar()
    with closing(Prometheus(asked.prometheus, asked.token_file)) as prometheus, bar.shown:
        return replay(prometheus, asked, bar)


if __name__ == "__main__":
    sys.exit(main())
