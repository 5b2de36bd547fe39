"""``vllm-gateway doctor FILE…``: whether a roll-out cuts a stream, and the fix for each reason."""

import sys
from collections.abc import Sequence

from fleet.examination import Examination
from fleet.gather import MOST_BYTES, Known
from gateway.doctor.source import Source, findings, may_be_known

KNOWN = Known("vllm-gateway doctor", may_be_known, Source.known)
KINDS = (
    "Kubernetes manifests, compose files, fleet.yml, systemd and Quadlet units, nginx's and "
    "HAProxy's configuration"
)
DESCRIPTION = f"""\
Looks for what would cut a stream when a gateway, a vLLM server or a proxy is rolled out: times that
do not fit together, probes, budgets, retries. Reads {KINDS}, of at most
{MOST_BYTES // 2**20} MiB each. Changes nothing and connects to nothing."""
DOCTOR = Examination(
    name="doctor",
    known=KNOWN,
    kinds=KINDS,
    description=DESCRIPTION,
    error="a roll-out may cut streams, or have answers generated twice",
)


def main(argv: Sequence[str]) -> int:
    """Look at the files and folders of the command line. Returns the exit status."""
    return DOCTOR.run(DOCTOR.parser().parse_args(argv), findings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
