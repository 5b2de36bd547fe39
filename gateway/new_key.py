"""``vllm-gateway keys new NAME``: a new API key, shown once."""

import argparse
import secrets
from collections.abc import Sequence

from gateway.keys import NAME, line

KEY_BYTES = 32
PREFIX = "vlg-"
DESCRIPTION = """\
Makes an API key and prints it, and the line for the file that gateway.keys_file names. The key is
kept nowhere: the line has only its hash. The gateway sees a changed file within a second."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print a key and its line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="vllm-gateway keys", description=DESCRIPTION)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    new = commands.add_parser("new", help="make a key", description=DESCRIPTION)
    new.add_argument("name", metavar="NAME", type=_name, help="the caller, as the ledger names it")
    name: str = parser.parse_args(argv).name
    key = PREFIX + secrets.token_urlsafe(KEY_BYTES)
    print(f"key, for {name} alone and shown only now:\n    {key}\nline for the file of keys:")
    print(f"    {line(name, key)}")
    return 0


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not 1 to 64 letters, digits and . _ -, beginning with a letter or digit"
        )
    return text
