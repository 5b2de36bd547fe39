"""A command that looks at files and prints findings: what lint and doctor have in common."""

import argparse
import io
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fleet.finding import Finding, mended
from fleet.findings_report import Format, as_github, as_json, as_text, summary
from fleet.gather import Known, gather

FOUND = 1
NOT_READ = 2
EPILOG = """\
exit status:
  0  nothing to mend; there may be notes
  1  at least one error: {error}
  2  a file cannot be read or parsed, or none is of a known kind; the others are looked at
     nonetheless. Also for a bad command line, and a crash of {name} itself
"""

Source = TypeVar("Source")


@dataclass(frozen=True)
class Examination(Generic[Source]):
    """One such command: its name without the program's, and what it knows.

    ``kinds`` are the kinds of files in words, ``error`` is what an error means.
    """

    name: str
    known: Known[Source]
    kinds: str
    description: str
    error: str

    def parser(self) -> argparse.ArgumentParser:
        """The command line; the command may add flags of its own."""
        parser = argparse.ArgumentParser(
            prog=self.known.command,
            description=self.description,
            epilog=EPILOG.format(error=self.error, name=self.name),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("files", nargs="+", metavar="FILE", help="file, folder, or - for stdin")
        parser.add_argument(
            "--format", choices=list(Format), default=Format.TEXT, help="default: %(default)s"
        )
        return parser

    def run(
        self,
        args: argparse.Namespace,
        findings: Callable[[Sequence[Source]], tuple[Finding, ...]],
    ) -> int:
        """Look at the files and folders, and print. Returns the exit status."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A file's name need not be text.
                stream.reconfigure(errors="backslashreplace")
        try:
            return self._examine(args.files, Format(args.format), findings)
        except Exception:  # noqa: BLE001 -- Python's own status for a crash would say "found"
            traceback.print_exc()
            return NOT_READ

    def _examine(
        self,
        files: Sequence[str],
        form: Format,
        findings: Callable[[Sequence[Source]], tuple[Finding, ...]],
    ) -> int:
        gathered = gather(files, self.known)
        found = findings(gathered.sources)
        looked_at = len(gathered.sources)
        not_known = len(gathered.unknown_named) + gathered.unknown_found
        match form:
            case Format.JSON:
                print(as_json(found, gathered.problems, looked_at=looked_at, not_known=not_known))
            case Format.GITHUB:
                _print(as_github(found))
            case Format.TEXT:
                _print(as_text(found))
                print(summary(found, looked_at=looked_at, not_known=not_known))
        knows = f"{self.name} knows"
        for name in gathered.unknown_named:
            print(f"{name}: is not looked at: {knows} {self.kinds}", file=sys.stderr)
        for problem in gathered.problems:
            print(problem, file=sys.stderr)
        if not (gathered.sources or gathered.problems or gathered.unknown_named):
            print(f"{' '.join(files)}: holds nothing that {knows}: {self.kinds}", file=sys.stderr)
        if gathered.problems or not gathered.sources:
            return NOT_READ
        return 0 if mended(found) else FOUND


def _print(text: str) -> None:
    if text:
        print(text)
