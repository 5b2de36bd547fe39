"""vllm-exporter: serves by default; a first word of the command line does something else."""

import importlib
import sys
from collections.abc import Mapping, Sequence

from fleet.pipe import piped

# By the module whose main(argv) does it. Imported only then: a probe that is run every few seconds
# has no use for what serves pages.
COMMANDS: Mapping[str, str] = {
    "backtest": "exporter.backtest.__main__",
    "check": "exporter.check.__main__",
}
SERVE = "exporter.serve"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for. Returns its exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in COMMANDS:
        command = importlib.import_module(COMMANDS[argv[0]])
        return piped(lambda: int(command.main(argv[1:])))
    return int(importlib.import_module(SERVE).main(argv, commands=tuple(COMMANDS)))


if __name__ == "__main__":
    sys.exit(main())
