"""vllm-gateway drain, undrain and inflight: what a person asks a running gateway's admin API."""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import requests
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fleet import secret_file
from fleet.flags import duration, http_url
from fleet.secret_file import SecretError
from fleet.settings import SettingsError, load

WELL = 0
UNREACHABLE = 1
BAD_USAGE = 2
REFUSED = 3
STILL_THERE = 4
URL = "http://127.0.0.1:8080"
TIMEOUT_SECONDS = 10.0
LOOK_SECONDS = 0.5


class NotDoneError(Exception):
    """What was asked for was not done: one sentence, and the exit status."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


def main(argv: Sequence[str]) -> int:
    """Run ``drain``, ``undrain`` or ``inflight``, and return 0, or a status that says why not.

    1: the gateway cannot be reached. 2: bad usage or settings. 3: it refused. 4: with ``--wait``,
    requests were still there when the time was up.
    """
    args = _parser().parse_args(argv)
    try:
        gateway = _Gateway(args.url, _token(args.token_file, args.config_file))
        if args.command == "inflight":
            return _in_flight(gateway, as_json=args.json)
        said = gateway.post(f"/admin/backends/{quote(args.backend, safe='')}/{args.command}")
        if args.command == "drain" and args.wait:
            return _wait(gateway, args.backend, args.timeout)
        print(f"{said['backend']}: {said['state']}, {said['in_flight']} in flight")
    except NotDoneError as error:
        print(f"vllm-gateway {args.command}: {error}", file=sys.stderr)
        return error.status
    return WELL


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vllm-gateway")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("drain", "send a backend nothing new, and let its streams go on elsewhere"),
        ("undrain", "send a backend requests again"),
        ("inflight", "list the requests that have no end yet"),
    ):
        command = commands.add_parser(name, help=text, description=f"{text.capitalize()}.")
        command.add_argument(
            "--url", type=http_url, default=os.environ.get("LIFEGUARD_GATEWAY_URL", URL)
        )
        command.add_argument("--token-file", type=Path, help="the admin API's bearer token")
        command.add_argument(
            "--config.file", dest="config_file", type=Path, default=Path("fleet.yml")
        )
        if name == "inflight":
            command.add_argument("--json", action="store_true", help="as JSON")
        else:
            command.add_argument("backend", help="its name in fleet.yml")
        if name == "drain":
            command.add_argument("--wait", action="store_true", help="until nothing is left there")
            command.add_argument("--timeout", type=duration, default=600.0, help="for --wait (10m)")
    return parser


def _token(file: Path | None, config: Path) -> str:
    if file is None:
        try:
            gateway = load(config).gateway
        except SettingsError as error:
            raise NotDoneError(str(error), BAD_USAGE) from None
        if gateway is None:
            raise NotDoneError(f"{config}: gateway: is required, or --token-file", BAD_USAGE)
        file = gateway.admin_token_file
    try:
        return secret_file.token(file)
    except SecretError as error:
        raise NotDoneError(str(error), BAD_USAGE) from None


class _Gateway:
    """One gateway's admin API."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str) -> Any:  # noqa: ANN401 -- JSON
        return self._ask("GET", path)

    def post(self, path: str) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._ask("POST", path)
        return answer

    def _ask(self, method: str, path: str) -> Any:  # noqa: ANN401 -- JSON
        try:
            answer = self._session.request(
                method, self._url + path, timeout=TIMEOUT_SECONDS, allow_redirects=False
            )
            value = answer.json()
        except requests.JSONDecodeError:
            raise NotDoneError(f"{self._url} is no gateway's admin API", REFUSED) from None
        except requests.RequestException:
            raise NotDoneError(f"{self._url} cannot be reached", UNREACHABLE) from None
        if not answer.ok:
            why = value.get("error", {}).get("message", f"it answered {answer.status_code}")
            raise NotDoneError(why, REFUSED)
        return value


def _in_flight(gateway: _Gateway, *, as_json: bool) -> int:
    rows = gateway.get("/admin/inflight")
    if as_json:
        json.dump(rows, sys.stdout, indent=2)
        print()
        return WELL
    table = Table("request", "caller", "model", "backend", "age s", "tokens", "legs")
    for row in sorted(rows, key=lambda row: -row["age_seconds"]):
        numbers = (f"{row['age_seconds']:.1f}", str(row["tokens"]), str(row["legs"]))
        table.add_row(row["id"], row["caller"], row["model"], row["backend"], *numbers)
    Console().print(table)
    return WELL


def _wait(gateway: _Gateway, backend: str, timeout: float) -> int:
    until = time.monotonic() + timeout
    path = f"/admin/backends/{quote(backend, safe='')}"
    said = gateway.get(path)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=not sys.stdout.isatty()) as progress:
        most = max(1, said["in_flight"])
        task = progress.add_task(f"{backend}: {said['in_flight']} in flight", total=most)
        while said["in_flight"] and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
            said = gateway.get(path)
            progress.update(
                task,
                completed=most - said["in_flight"],
                description=f"{backend}: {said['in_flight']} in flight",
            )
    print(f"{backend}: {said['state']}, {said['in_flight']} in flight")
    return WELL if not said["in_flight"] else STILL_THERE
