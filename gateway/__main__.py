"""vllm-gateway: serves by default; a first word of the command line does something else."""

import importlib
import sys
from collections.abc import Mapping, Sequence

from fleet.pipe import piped

# By the module whose main(argv) does it. Imported only then.
COMMANDS: Mapping[str, str] = {
    "doctor": "gateway.doctor.__main__",
    "drain": "gateway.command",
    "inflight": "gateway.command",
    "keys": "gateway.new_key",
    "ledger": "gateway.ledger.__main__",
    "undrain": "gateway.command",
}
# These are one module's: it is told which.
TOLD_WHICH = frozenset({"drain", "inflight", "undrain"})
SERVE = "gateway.start"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for. Returns its exit status."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv and argv[0] in COMMANDS:
        command = importlib.import_module(COMMANDS[argv[0]])
        return piped(lambda: int(command.main(argv if argv[0] in TOLD_WHICH else argv[1:])))
    return int(importlib.import_module(SERVE).main(argv, commands=tuple(COMMANDS)))


if __name__ == "__main__":
    sys.exit(main())
