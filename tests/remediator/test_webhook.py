"""The web side: what is answered to whom, and that only what is stored is acknowledged."""

import base64
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fleet.family import registry
from fleet.settings import BasicAuth, Mode
from remediator.collector import RemediatorCollector
from remediator.database import StorageError
from remediator.decision import Hold, Reason
from remediator.desk import Desk
from remediator.journal import Journal, Received
from remediator.restart import Outcome
from remediator.store import Store
from remediator.webhook import MOST_BYTES, create_app
from tests.remediator import making
from tests.remediator.fakes import Clock, FakeLoop
from tests.remediator.making import at
from tests.remediator.stage import BACK, Stage
from tests.remediator.test_notification import body, one

TOKEN = {"Authorization": "Bearer secret"}


@dataclass
class Site:
    """A web side with a database and without a worker."""

    client: FlaskClient
    store: Store
    journal: Journal
    loop: FakeLoop
    token_file: Path
    desk: Desk

    def post(self, sent: bytes, **headers: str) -> tuple[int, Any]:
        answer = self.client.post("/api/alerts", data=sent, headers={**TOKEN, **headers})
        return answer.status_code, answer.json


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    token_file = tmp_path / "token"
    token_file.write_text("secret\n")
    store = Store(f"sqlite:///{tmp_path / 'remediator.db'}")
    journal, loop = Journal(), FakeLoop()
    limits = making.limits(token_file=token_file)
    own = registry(RemediatorCollector(limits.mode, ("gpu-a",), store, journal, Clock(at(60))))
    desk = Desk(limits, store, journal, loop, own, Clock(at(60)), making.settings())
    yield Site(create_app(desk).test_client(), store, journal, loop, token_file, desk)
    store.close()


def test_a_notification_is_stored_before_it_is_acknowledged(site: Site) -> None:
    assert site.post(body(one())) == (200, {"stored": 1})
    (incident,) = site.store.incidents.due(at(60))
    assert incident.backend == "gpu-a"
    assert site.loop.woken == 1
    assert site.journal.notifications() == {Received.ACCEPTED: 1}


def test_a_resolved_alert_closes_its_incident_and_is_told(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    site.post(body(one()))
    site.post(body(one(status="resolved", endsAt="2026-03-01T12:01:00Z")))
    assert site.store.incidents.open() == ()
    assert "decision=ignore reason=resolved backend=gpu-a" in caplog.text


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer secret2",
        "Basic secret",
        "secret",
        "Bearer é",
    ],
)
def test_without_the_token_nothing_is_taken(site: Site, header: str) -> None:
    status, told = site.post(body(one()), Authorization=header)
    assert status == 401
    assert told == {"error": "the Authorization header does not bear the token of token_file"}
    assert site.store.incidents.due(at(60)) == ()
    assert site.journal.notifications() == {Received.UNAUTHORISED: 1}


@pytest.mark.parametrize("header", ["Bearer secret", "bearer secret", "BEARER  secret "])
def test_with_the_token_it_is(site: Site, header: str) -> None:
    assert site.post(body(one()), Authorization=header)[0] == 200


BASIC = {"username": "alertmanager", "password": "päss:word"}


def basic(username: str = BASIC["username"], password: str = BASIC["password"]) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


@pytest.fixture
def guarded(site: Site) -> Site:
    """The same, where a user with a password is let in besides the token."""
    password_file = site.token_file.with_name("password")
    password_file.write_text(f"{BASIC['password']}\n")
    both = BasicAuth(BASIC["username"], password_file)
    desk = replace(site.desk, settings=replace(site.desk.settings, basic_auth=both))
    return replace(site, desk=desk, client=create_app(desk).test_client())


@pytest.mark.parametrize("header", [basic(), basic().replace("Basic", "bAsic "), "Bearer secret"])
def test_a_user_with_a_password_is_let_in_as_well(guarded: Site, header: str) -> None:
    assert guarded.post(body(one()), Authorization=header)[0] == 200


@pytest.mark.parametrize(
    "header",
    [
        basic(username="root"),
        basic(password="pass:word"),
        basic(password=""),
        basic(password=BASIC["password"] + "\n"),
        "Basic",
        "Basic !",
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic " + base64.b64encode(b"alertmanager").decode(),
        "Bearer " + BASIC["password"],
        "Bearer wrong",
        "Digest secret",
    ],
)
def test_nobody_else_is_let_in_and_told_how_to_ask(guarded: Site, header: str) -> None:
    answer = guarded.client.post("/api/alerts", data=body(one()), headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers.getlist("WWW-Authenticate") == [
        'Bearer realm="vllm-remediator"',
        'Basic realm="vllm-remediator", charset="UTF-8"',
    ]
    assert "secret" not in answer.text
    assert BASIC["password"] not in answer.text
    assert guarded.store.incidents.due(at(60)) == ()


def test_where_only_a_user_is_let_in_the_token_is_worth_nothing(guarded: Site) -> None:
    desk = replace(guarded.desk, settings=replace(guarded.desk.settings, token_file=None))
    alone = replace(guarded, client=create_app(desk).test_client())
    assert alone.post(body(one()), Authorization="Bearer secret")[0] == 401
    assert alone.post(body(one()), Authorization=basic())[0] == 200


def test_a_password_that_was_changed_counts_from_the_next_notification(guarded: Site) -> None:
    guarded.token_file.with_name("password").write_text("rotated")
    assert guarded.post(body(one()), Authorization=basic())[0] == 401
    assert guarded.post(body(one()), Authorization=basic(password="rotated"))[0] == 200


def test_a_secret_that_cannot_be_read_stands_in_nobody_elses_way(guarded: Site) -> None:
    guarded.token_file.unlink()
    assert guarded.post(body(one()), Authorization=basic())[0] == 200
    status, told = guarded.post(body(one()), Authorization="Bearer secret")
    assert status == 503
    assert told["error"].startswith("token_file: ")


def test_a_token_that_was_changed_counts_from_the_next_notification(site: Site) -> None:
    site.token_file.write_text("rotated")
    assert site.post(body(one()))[0] == 401
    assert site.post(body(one()), Authorization="Bearer rotated")[0] == 200


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff"])
def test_without_a_token_of_our_own_alertmanager_shall_try_again(
    site: Site, content: bytes | None
) -> None:
    site.token_file.unlink()
    if content is not None:
        site.token_file.write_bytes(content)
    status, told = site.post(body(one()), Authorization="Bearer ")
    assert status == 503
    assert told["error"].startswith("token_file: ")
    assert site.journal.notifications() == {Received.NOT_STORED: 1}


def test_a_mistake_is_answered_with_its_sentence(site: Site) -> None:
    status, told = site.post(body(one(), one(startsAt="x")))
    assert (status, told) == (400, {"error": "alerts[1].startsAt: 'x' is not a time"})
    assert site.store.incidents.due(at(60)) == ()  # all of it or nothing
    assert site.journal.notifications() == {Received.MALFORMED: 1}


def test_what_is_too_large_is_not_read(site: Site) -> None:
    status, told = site.post(b" " * (MOST_BYTES + 1))
    assert status == 413
    assert "max_alerts" in told["error"]
    assert site.journal.notifications() == {Received.TOO_LARGE: 1}


def test_what_is_just_small_enough_is_read(site: Site) -> None:
    sent = body(one())
    assert site.post(sent + b" " * (MOST_BYTES - len(sent)))[0] == 200


def test_what_cannot_be_stored_is_not_acknowledged(site: Site) -> None:
    def broken(*_: object) -> object:
        raise StorageError("the disk is full")

    site.store.incidents.note = broken  # type: ignore[assignment, method-assign]
    assert site.post(body(one())) == (503, {"error": "the disk is full"})
    assert site.loop.woken == 0
    assert site.journal.notifications() == {Received.NOT_STORED: 1}


def test_alerts_that_were_left_out_are_told_and_counted(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    assert site.post(body(one(), truncatedAlerts=3))[0] == 200
    assert site.post(body(one(), truncatedAlerts=2))[0] == 200
    assert "event=alerts_truncated alerts=3" in caplog.text
    assert "remediator_truncated_alerts_total 5.0" in site.client.get("/metrics").text
    assert site.journal.notifications() == {Received.ACCEPTED: 2}


def test_ready_and_healthy_are_the_database_and_the_loop(site: Site) -> None:
    assert site.client.get("/-/ready").status_code == 200
    assert site.client.get("/-/healthy").status_code == 200
    site.loop.says = "no turn for 60 s"
    assert site.client.get("/-/healthy").text == "no turn for 60 s\n"
    assert site.client.get("/-/ready").status_code == 503
    site.loop.says = None

    def broken() -> object:
        raise StorageError("locked")

    site.store.attempts.under_way = broken  # type: ignore[assignment, method-assign]
    assert site.client.get("/-/ready").text == "locked\n"
    assert site.client.get("/-/healthy").status_code == 200


def test_a_database_that_cannot_be_read_is_said(site: Site) -> None:
    def broken(*_: object) -> object:
        raise StorageError("locked")

    site.store.incidents.newest = broken  # type: ignore[assignment, method-assign]
    site.store.incidents.newest_decisions = broken  # type: ignore[assignment, method-assign]
    answer = site.client.get("/api/incidents")
    assert (answer.status_code, answer.json) == (503, {"error": "locked"})
    assert site.client.get("/").status_code == 503


@pytest.fixture
def played(tmp_path: Path) -> Iterator[tuple[FlaskClient, Stage]]:
    """The web side of a remediator that has restarted a backend."""
    with Stage(tmp_path) as stage:
        stage.restarter.outcome = Outcome(True, "fine", 0, "secret=hunter2")  # noqa: FBT003
        stage.witness.afterwards = BACK
        stage.tell(making.alert(), making.alert(fingerprint="b", backend="<b>x</b>"))
        stage.pass_(80)
        own = registry(
            RemediatorCollector(Mode.ACT, ("gpu-a",), stage.store, stage.journal, stage.clock)
        )
        limits = stage.remedy.limits
        desk = Desk(
            limits, stage.store, stage.journal, stage.worker, own, stage.clock, stage.settings
        )
        yield create_app(desk).test_client(), stage


def test_what_programs_are_told(played: tuple[FlaskClient, Stage]) -> None:
    client, _ = played
    paths = ("/api/incidents", "/api/attempts", "/api/decisions")
    incidents, attempts, decisions = (json.loads(client.get(path).text) for path in paths)
    assert [i["backend"] for i in incidents] == ["<b>x</b>", "gpu-a"]
    assert attempts[0]["state"] == "recovered"
    assert attempts[0]["start_time_before"] == making.START
    assert attempts[0]["start_time_after"] == making.T0.timestamp() + 60
    assert {d["reason"] for d in decisions} == {"unknown_backend", "stuck", "already_handled"}
    for row in (*incidents, *attempts, *decisions):
        assert all(value is None or isinstance(value, str | int | float) for value in row.values())


def test_what_a_command_printed_is_shown_to_nobody(played: tuple[FlaskClient, Stage]) -> None:
    client, stage = played
    assert stage.all_attempts[0].output == "secret=hunter2"
    for path in ("/", "/api/attempts", "/api/incidents", "/api/decisions", "/metrics"):
        assert "hunter2" not in client.get(path).text


def test_what_people_are_shown(played: tuple[FlaskClient, Stage]) -> None:
    client, _ = played
    page = client.get("/").text
    assert "Mode <b>act</b>" in page
    assert "recovered" in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    assert "<b>x</b>" not in page


def test_open_incidents_are_shown_with_their_reasons(site: Site) -> None:
    site.post(body(one(labels={"backend": "gpu-a", "engine": "0", "remediate": "restart"})))
    assert "an incident is not decided about yet" in site.client.get("/").text
    (incident,) = site.store.incidents.due(at(60))
    decision = Hold(Reason.COOLING_DOWN, at(900), "last restarted a minute ago")
    site.store.incidents.decided(incident, decision, at(90), at(60))
    page = site.client.get("/").text
    assert "hold, cooling_down" in page
    assert "engine 0" in page


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
FIELDS = ("status", "labels", "startsAt", "endsAt", "fingerprint", "annotations")
TEXTS = st.text(max_size=40) | st.sampled_from(
    ["../b", "a; rm -rf /", "$(x)", "gpu-a\n", "x" * 10_000, "\x00", "\ud800", "gpu-z"]
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Notifications with anything wrong in them, and some with nothing wrong but their labels."""
    kind = draw(st.sampled_from(["bytes", "json", "root", "alert", "labels", "cut"]))
    if kind == "bytes":
        return draw(st.binary(max_size=200))
    if kind == "json":
        return json.dumps(draw(JSON)).encode()
    if kind == "root":
        name = draw(st.sampled_from(["version", "alerts", "truncatedAlerts", "status"]))
        return body(one(labels={}), **{name: draw(JSON)})
    if kind == "alert":
        return body(one(**{"labels": {}, draw(st.sampled_from(FIELDS)): draw(JSON)}))
    labels = draw(st.dictionaries(st.sampled_from(["backend", "engine", "x"]), TEXTS))
    sent = body(one(labels={"remediate": "restart", **labels}))
    if kind == "cut":
        return sent[: draw(st.integers(0, len(sent) - 1))]
    return sent


@hypothesis_settings(
    max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(bodies())
def test_a_thousand_bodies_and_no_crash(site: Site, sent: bytes) -> None:
    status, told = site.post(sent)
    assert status in (200, 400)
    assert (status == 200) == ("stored" in told)


def test_what_a_hundred_hostile_bodies_lead_to_is_no_restart(tmp_path: Path) -> None:
    """The same through the worker: no body that names no backend ever reaches a server."""
    drawn = random.Random(7)
    hostile = [
        "../b",
        "a; rm -rf /",
        "$(x)",
        "gpu-a\n",
        "x" * 10_000,
        "",
        "gpu-b",
        "GPU-A",
        "\ud800",
    ]
    token_file = tmp_path / "token"
    token_file.write_text("secret")
    with Stage(tmp_path) as stage:
        own = registry(
            RemediatorCollector(Mode.ACT, ("gpu-a",), stage.store, stage.journal, stage.clock)
        )
        limits = making.limits(token_file=token_file)
        desk = Desk(
            limits, stage.store, stage.journal, stage.worker, own, stage.clock, stage.settings
        )
        client = create_app(desk).test_client()
        for i in range(100):
            labels = {"backend": drawn.choice(hostile), "remediate": "restart", "instance": "gpu-a"}
            sent = body(one(labels=labels, fingerprint=f"{i:016x}"))
            assert client.post("/api/alerts", data=sent, headers=TOKEN).status_code == 200
            stage.turn()
        assert stage.restarter.restarted == []
        assert stage.alertmanager.asked == 0
        assert stage.witness.proofs == []
        assert set(stage.told) == {"ignore unknown_backend"}
