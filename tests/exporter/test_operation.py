"""The pages under /-/: what each says, and with which status."""

from collections.abc import Sequence

import pytest
from flask import Flask
from flask.testing import FlaskClient

from exporter.memory import Memory
from exporter.operation import add_operation
from exporter.standing import SourceStanding, Standing
from exporter.watch import ReloadBusyError
from tests.exporter.fleets import SETTINGS, backend_at, snapshot
from tests.fleet.watching import recorded

NOBODY = Standing(SETTINGS, ())
ONE = Standing(SETTINGS, ("gpu-a",))
UNSEEN = SourceStanding("dns", backends=0, failures=0, has_looked=False)
SEEN = SourceStanding("files", backends=1, failures=0, has_looked=True)


class Operated:
    """An app whose standing can be changed and whose reload ends as told."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.standing = ONE
        self.problems: Sequence[str] = ()
        self.busy = ""
        self.reloads = 0
        app = Flask(__name__)
        add_operation(app, self.memory, lambda: self.standing, self.reload)
        self.client: FlaskClient = app.test_client()

    def reload(self) -> Sequence[str]:
        self.reloads += 1
        if self.busy:
            raise ReloadBusyError(self.busy)
        return self.problems

    def polled(self, name: str) -> None:
        backend = backend_at("http://127.0.0.1:8000", name=name)
        self.memory.put(snapshot(*recorded("idle"), backend=backend))

    def ready(self) -> tuple[int, str]:
        answer = self.client.get("/-/ready")
        return answer.status_code, answer.text


@pytest.fixture
def operated() -> Operated:
    return Operated()


def test_ready_is_when_every_backend_was_polled(operated: Operated) -> None:
    assert operated.ready() == (503, "0 of 1 backends polled once\n")
    operated.polled("gpu-b")
    assert operated.ready() == (503, "0 of 1 backends polled once\n")
    operated.polled("gpu-a")
    assert operated.ready() == (200, "ready\n")


def test_ready_is_when_every_source_was_looked_up(operated: Operated) -> None:
    operated.standing = Standing(SETTINGS, (), (SEEN, UNSEEN))
    assert operated.ready() == (503, "not looked up yet: dns\n")
    operated.standing = Standing(SETTINGS, (), (SEEN,))
    assert operated.ready() == (200, "ready\n")


def test_who_was_ready_stays_so_when_a_backend_is_found(operated: Operated) -> None:
    operated.standing = NOBODY
    assert operated.ready() == (200, "ready\n")
    operated.standing = ONE
    assert operated.ready() == (200, "ready\n")


def test_healthy_is_as_long_as_every_thread_runs(operated: Operated) -> None:
    assert operated.client.get("/-/healthy").status_code == 200
    operated.standing = Standing(SETTINGS, ("gpu-a",), not_running=("poll-gpu-a", "discovery-dns"))
    answer = operated.client.get("/-/healthy")
    assert answer.status_code == 503
    assert answer.text == "not running any more: poll-gpu-a, discovery-dns\n"


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_reload_is_answered_when_it_is_over(method: str, operated: Operated) -> None:
    answer = operated.client.open("/-/reload", method=method)
    assert (answer.status_code, answer.text, operated.reloads) == (200, "", 1)


def test_a_reload_that_fails_says_all_that_is_wrong(operated: Operated) -> None:
    operated.problems = ("fleet.yml: x: is not a setting", "fleet.yml: <y>: is not a setting")
    answer = operated.client.post("/-/reload")
    assert answer.status_code == 500
    assert answer.text == "fleet.yml: x: is not a setting\nfleet.yml: <y>: is not a setting\n"
    assert answer.content_type.startswith("text/plain")


def test_a_reload_that_is_not_over_is_no_failure_and_no_success(operated: Operated) -> None:
    operated.busy = "another reload is under way: ask again"
    answer = operated.client.post("/-/reload")
    assert (answer.status_code, answer.text) == (503, f"{operated.busy}\n")
    assert answer.headers["Retry-After"] == "5"


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
def test_nothing_is_reloaded_by_looking(method: str, operated: Operated) -> None:
    assert operated.client.open("/-/reload", method=method).status_code == 405
    assert operated.reloads == 0
