"""Who asks: the words that every command that changes something takes."""

import argparse
import getpass


def add_by(made: argparse.ArgumentParser, *, why: str) -> None:
    """Add ``--by`` and ``--why``; ``why`` is "required" or a help text."""
    required = why == "required"
    made.add_argument(
        "--why",
        required=required,
        default="",
        metavar="TEXT",
        help="why, for whoever reads it later" if required else why,
    )
    made.add_argument(
        "--by", default=login(), metavar="NAME", help="who asks (default: the login name)"
    )


def login() -> str | None:
    """The login name; None where there is none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def said(args: argparse.Namespace) -> dict[str, object]:
    """``by`` and ``why`` as the API takes them."""
    told: dict[str, object] = {"by": args.by or ""}
    if args.why:
        told["why"] = args.why
    return told
