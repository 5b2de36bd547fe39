"""``vllm-remediator lint FILE…``: what else could restart a vLLM server, and the fix for each."""

import sys
from collections.abc import Sequence

from fleet.examination import Examination
from fleet.flags import duration
from fleet.gather import MOST_BYTES, Known
from fleet.schema import DefaultsSection
from remediator.lint.source import Source, findings, may_be_known

KNOWN = Known("vllm-remediator lint", may_be_known, Source.known)
KINDS = "compose files, Kubernetes manifests, systemd and Quadlet units, crontabs"
DESCRIPTION = f"""\
Looks for rivals of the remediator: whatever else could restart a vLLM server. Reads {KINDS},
of at most {MOST_BYTES // 2**20} MiB each. Changes nothing and connects to nothing."""
LINT = Examination(
    name="lint",
    known=KNOWN,
    kinds=KINDS,
    description=DESCRIPTION,
    error="something may restart a healthy server",
)


def main(argv: Sequence[str]) -> int:
    """Look at the files and folders of the command line. Returns the exit status."""
    parser = LINT.parser()
    parser.add_argument(
        "--load-time",
        type=duration,
        default=DefaultsSection().load_time,
        metavar="DURATION",
        help="how long a model may load; probes must be as patient (default: %(default)gs)",
    )
    args = parser.parse_args(argv)
    return LINT.run(args, lambda sources: findings(sources, args.load_time))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
