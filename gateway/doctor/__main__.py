"""``vllm-gateway doctor FILE…``: whether a roll-out cuts a stream, and the fix for each reason."""

import argparse
import io
import sys
import traceback
from collections.abc import Sequence

from fleet.finding import mended
from fleet.findings_report import Format, as_github, as_json, as_text, summary
from fleet.gather import MOST_BYTES, Known, gather
from gateway.doctor.source import Source, findings, may_be_known

FOUND = 1
NOT_READ = 2
KNOWN = Known("vllm-gateway doctor", may_be_known, Source.known)
KINDS = (
    "Kubernetes manifests, compose files, fleet.yml, systemd and Quadlet units, nginx's and "
    "HAProxy's configuration"
)
DESCRIPTION = f"""\
Looks for what would cut a stream when a gateway, a vLLM server or a proxy is rolled out: times that
do not fit together, probes, budgets, retries. Reads {KINDS}, of at most
{MOST_BYTES // 2**20} MiB each. Changes nothing and connects to nothing."""
EPILOG = """\
exit status:
  0  nothing to mend; there may be notes
  1  at least one error: a roll-out may cut streams, or have answers generated twice
  2  a file cannot be read or parsed, or none is of a known kind; the others are looked at
     nonetheless. Also for a bad command line, and a crash of doctor itself
"""


def main(argv: Sequence[str]) -> int:
    """Look at the files and folders of the command line. Returns the exit status."""
    args = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file's name need not be text.
            stream.reconfigure(errors="backslashreplace")
    try:
        return _examine(args.files, Format(args.format))
    except Exception:  # noqa: BLE001 -- Python's own status for a crash would say "found"
        traceback.print_exc()
        return NOT_READ


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vllm-gateway doctor",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="file, folder, or - for stdin")
    parser.add_argument(
        "--format", choices=list(Format), default=Format.TEXT, help="default: %(default)s"
    )
    return parser


def _examine(files: Sequence[str], form: Format) -> int:
    gathered = gather(files, KNOWN)
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
    for name in gathered.unknown_named:
        print(f"{name}: is not looked at: doctor knows {KINDS}", file=sys.stderr)
    for problem in gathered.problems:
        print(problem, file=sys.stderr)
    if not (gathered.sources or gathered.problems or gathered.unknown_named):
        print(f"{' '.join(files)}: holds nothing that doctor knows: {KINDS}", file=sys.stderr)
    if gathered.problems or not gathered.sources:
        return NOT_READ
    return 0 if mended(found) else FOUND


def _print(text: str) -> None:
    if text:
        print(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
