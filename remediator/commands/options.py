"""What all commands have in common: how they find the remediator and the token, how they end."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fleet.flags import duration, http_url
from fleet.settings import SettingsError, load
from remediator.commands.exit_status import CommandError, ExitStatus
from remediator.commands.remote import Remote

URL = "http://127.0.0.1:9110"
URL_VARIABLE = "LIFEGUARD_REMEDIATOR_URL"
TOKEN_VARIABLE = "LIFEGUARD_TOKEN_FILE"  # noqa: S105 -- a variable's name
EPILOG = """\
exit status:
    0  done as asked
    1  the remediator cannot be reached, or cannot answer
    2  a bad command line or bad settings, or there is no such backend, attempt or hold
    3  something stood against the restart, or it did not end well
    4  no token, or the wrong one
  130  stopped by you: no to a question, or Ctrl-C
"""

Job = Callable[[Remote, argparse.Namespace], ExitStatus]


def parser(name: str, description: str, *, reads: bool = False) -> argparse.ArgumentParser:
    """A parser with the flags that every command has; ``reads`` adds ``--json``."""
    made = argparse.ArgumentParser(
        prog=f"vllm-remediator {name}",
        description=description,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # a token behind --token would be taken for a file's name
    )
    add = made.add_argument
    add(
        "--url",
        type=http_url,
        metavar="URL",
        help=f"the remediator's (default: {URL_VARIABLE}, or {URL})",
    )
    add(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"the API's token (default: {TOKEN_VARIABLE}, or api_token_file of fleet.yml)",
    )
    add("--ca-file", type=Path, metavar="FILE", help="PEM certificates to trust, for https")
    add(
        "--config.file",
        dest="config_file",
        type=Path,
        metavar="FILE",
        help="fleet.yml, only for its api_token_file (default: fleet.yml, if there is one)",
    )
    if reads:
        add("--json", action="store_true", help="say it as JSON")
    return made


def duration_as_written(text: str) -> str:
    """A duration such as 2h, for the API to read. Raises ArgumentTypeError with one sentence."""
    duration(text)
    return text


def run(made: argparse.ArgumentParser, argv: Sequence[str], job: Job) -> int:
    """Parse the command line and do the job; what goes wrong is one sentence on stderr."""
    args = made.parse_args(argv)
    try:
        with _remote(args) as remote:
            status = job(remote, args)
        sys.stdout.flush()
    except CommandError as error:
        print(error, file=sys.stderr)
        return error.status
    except BrokenPipeError:
        # Whoever read has seen enough; the flush at exit must not complain of it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitStatus.OK
    except KeyboardInterrupt:
        return ExitStatus.STOPPED
    return status


def _remote(args: argparse.Namespace) -> Remote:
    if args.ca_file is not None and not args.ca_file.is_file():
        raise CommandError(f"--ca-file: {args.ca_file} is not a file", ExitStatus.USAGE)
    return Remote(_url(args.url), _token_file(args), args.ca_file)


def _url(given: str | None) -> str:
    if given is not None:
        return given
    try:
        return http_url(os.environ.get(URL_VARIABLE) or URL)
    except argparse.ArgumentTypeError as error:
        raise CommandError(f"{URL_VARIABLE}: {error}", ExitStatus.USAGE) from None


def _token_file(args: argparse.Namespace) -> Path | None:
    named = args.token_file or os.environ.get(TOKEN_VARIABLE)
    if named:
        return Path(named)
    file = args.config_file or Path("fleet.yml")
    if args.config_file is None and not file.exists():
        return None
    try:
        ours = load(file).remediator
    except SettingsError as error:
        raise CommandError(str(error), ExitStatus.USAGE) from None
    return None if ours is None else ours.api_token_file
