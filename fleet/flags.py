"""The flags that all programs have, as Prometheus' own programs spell them."""

import argparse
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from fleet import __version__
from fleet.listen import listen_address
from fleet.mistake import shown
from fleet.value import HttpUrl, Seconds

Value = TypeVar("Value")


def flags(program: str, description: str, *, port: int) -> argparse.ArgumentParser:
    """A parser that gives ``config_file``, ``config_check`` and ``listen`` (a Listen)."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument(
        "--config.file",
        dest="config_file",
        type=Path,
        default=Path("fleet.yml"),
        metavar="FILE",
        help="the fleet's settings (default: %(default)s)",
    )
    parser.add_argument(
        "--config.check",
        dest="config_check",
        action="store_true",
        help="check the settings, say what is wrong with them, and exit",
    )
    parser.add_argument(
        "--web.listen-address",
        dest="listen",
        type=listen_address,
        default=listen_address(f"0.0.0.0:{port}"),
        metavar="HOST:PORT",
        help=f"where to serve (default: 0.0.0.0:{port})",
    )
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    return parser


def duration(text: str) -> float:
    """Seconds of a duration such as 90s or 1m30s. Raises ArgumentTypeError with one sentence."""
    return _checked(TypeAdapter(Seconds), text)


def http_url(text: str) -> str:
    """A base URL without a trailing slash. Raises ArgumentTypeError with one sentence."""
    return _checked(TypeAdapter(HttpUrl), text)


def _checked(adapter: "TypeAdapter[Value]", text: str) -> Value:
    try:
        return adapter.validate_python(text)
    except ValidationError as error:
        wrong = error.errors()[0]
        sentence = wrong["msg"].removesuffix(" (api_key_file)")
        raise argparse.ArgumentTypeError(f"{shown(text)} {sentence}") from None
