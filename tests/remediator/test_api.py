"""The API: who may do what, what is asked, what is answered, and what is done about it."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from fleet.settings import Mode
from remediator.desk import in_folder
from remediator.incident import AttemptState, ShadowOutcome
from remediator.record import Start, Whose
from remediator.records import give_up
from remediator.restart import Outcome
from remediator.webhook import create_app
from tests.remediator import making
from tests.remediator.making import at
from tests.remediator.site import BEARER, Site, served, site, turning
from tests.remediator.stage import BACK

HOLD = {"backend": "gpu-a", "for": "2h", "why": "a batch job", "by": "alice"}
WHO = {"by": "alice", "why": "a new driver"}
WRITES = [
    ("POST", "/api/holds", HOLD),
    ("DELETE", "/api/holds/1", {"by": "alice"}),
    ("POST", "/api/backends/gpu-a/release", WHO),
    ("POST", "/api/backends/gpu-a/reset", WHO),
    ("POST", "/api/backends/gpu-a/restart", WHO),
]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as made:
        yield made


def nothing_happened(here: Site) -> bool:
    stage = here.stage
    return not stage.store.holds.in_force(stage.clock()) and not stage.store.incidents.newest(1)


@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=[w[1] for w in WRITES])
@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer wrong", "Basic YTpi", "a-token-of-the-api", "Bearer é"]
)
def test_without_the_token_nothing_is_done(
    here: Site, method: str, path: str, body: dict[str, str], header: str
) -> None:
    status, told = here.send(path, body, method, {"Authorization": header})
    assert status == 401
    assert told == {"error": "the Authorization header does not bear the token of api_token_file"}
    assert nothing_happened(here)


@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=[w[1] for w in WRITES])
def test_where_no_token_is_set_nobody_may(
    tmp_path: Path, method: str, path: str, body: dict[str, str]
) -> None:
    with site(tmp_path, api_token_file=None) as here:
        status, told = here.send(path, body, method)
        assert status == 403
        assert told == {"error": "nobody may do that: fleet.yml sets no remediator.api_token_file"}
        assert nothing_happened(here)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("\n", "is empty"),
        ("é", "is not one line of ASCII text"),
        ("two words", "is more than one word"),
    ],
)
def test_a_token_file_without_a_token_lets_nobody_in(here: Site, text: str, why: str) -> None:
    here.token_file.write_text(text)
    status, told = here.send("/api/holds", HOLD, headers={"Authorization": "Bearer "})
    assert status == 503
    assert told == {"error": f"api_token_file: {here.token_file}: {why}"}


def test_the_token_is_changed_without_a_restart(here: Site) -> None:
    here.token_file.write_text("another")
    assert here.send("/api/holds", HOLD)[0] == 401
    assert here.send("/api/holds", HOLD, headers={"Authorization": "bearer another"})[0] == 201


@pytest.mark.parametrize(("method", "path", "body"), WRITES, ids=[w[1] for w in WRITES])
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_a_browsers_form_can_send_does_nothing(
    here: Site, method: str, path: str, body: dict[str, str], kind: str
) -> None:
    del body
    text = '{"backend": "gpu-a", "for": "2h", "why": "x", "by": "y"}'
    answer = here.client.open(
        path, method=method, data=text, headers={**BEARER, "Content-Type": kind}
    )
    assert answer.status_code == 400
    assert answer.json == {"error": "Content-Type: has to be application/json"}
    assert nothing_happened(here)


def test_a_hold_holds_until_its_end(here: Site) -> None:
    status, told = here.send("/api/holds", HOLD)
    assert status == 201
    assert told == {
        "id": 1,
        "backend": "gpu-a",
        "since": "2026-03-01T12:01:00Z",
        "until": "2026-03-01T14:01:00Z",
        "by": "alice",
        "why": "a batch job",
    }
    assert here.get("/api/holds") == [told]
    here.stage.clock.advance(7199)
    assert here.get("/api/holds") == [told]
    here.stage.clock.advance(1)
    assert here.get("/api/holds") == []


def test_a_held_backend_is_not_restarted_and_a_released_one_is(here: Site) -> None:
    here.send("/api/holds", HOLD)
    here.stage.witness.afterwards = BACK
    here.stage.tell()
    here.stage.pass_(600)
    assert here.stage.restarter.restarted == []
    assert here.stage.told == ["hold held"]
    assert here.send("/api/backends/gpu-a/release", {"by": "bob"})[1]["released"][0]["id"] == 1
    here.stage.pass_(60)
    assert here.stage.restarter.restarted == ["gpu-a"]


def test_a_hold_on_all_holds_each(here: Site) -> None:
    assert here.send("/api/holds", {**HOLD, "backend": "*"})[0] == 201
    rows = here.get("/api/status")["backends"]
    assert {row["backend"]: row["situation"] for row in rows} == {
        "gpu-a": "held",
        "gpu-b": "held",
        "router": "held",
    }
    assert here.send("/api/backends/gpu-a/release", WHO)[1] == {"released": []}
    assert len(here.get("/api/holds")) == 1
    assert len(here.send("/api/backends/*/release", WHO)[1]["released"]) == 1
    assert here.get("/api/holds") == []


def test_one_hold_is_released_by_its_number_once(here: Site) -> None:
    here.send("/api/holds", HOLD)
    here.send("/api/holds", {**HOLD, "for": "3h"})
    status, told = here.send("/api/holds/1", {"by": "job-17"}, "DELETE")
    assert (status, [hold["id"] for hold in told["released"]]) == (200, [1])
    assert [hold["id"] for hold in here.get("/api/holds")] == [2]
    assert here.send("/api/holds/1", {"by": "job-17"}, "DELETE") == (
        404,
        {"error": "no hold 1 is in force"},
    )
    assert here.send("/api/holds/99999999999", {"by": "job-17"}, "DELETE")[0] == 404


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in HOLD.items() if key != name}


BAD_HOLDS: dict[str, tuple[object, int, str]] = {
    "not an object": ([1], 400, "the body: [1] is not an object"),
    "no backend": (
        without("backend"),
        400,
        "backend: is required: a name, or '*' for all of them",
    ),
    "an unknown backend": (
        {**HOLD, "backend": "gpu-aa"},
        404,
        "backend: 'gpu-aa' is not a backend in fleet.yml (did you mean 'gpu-a'?)",
    ),
    "a backend that is no text": (
        {**HOLD, "backend": ["gpu-a"]},
        404,
        "backend: ['gpu-a'] is not a backend in fleet.yml",
    ),
    "no end": (
        without("for"),
        400,
        "for: is required: a duration such as 2h; or else until, a time",
    ),
    "two ends": (
        {**HOLD, "until": "2026-03-01T13:00:00Z"},
        400,
        "for: is required: a duration such as 2h; or else until, a time",
    ),
    "no duration": (
        {**HOLD, "for": "2"},
        400,
        "for: '2' is not a duration such as 90s, 1m30s or 2h",
    ),
    "for ever": (
        {**HOLD, "for": "52w"},
        400,
        "for: '52w' is longer than longest_hold, which ends at 2026-03-08T12:01:00Z",
    ),
    "until long from now": (
        {**without("for"), "until": "2027-03-01T13:00:00Z"},
        400,
        (
            "until: '2027-03-01T13:00:00Z' is longer than longest_hold, "
            "which ends at 2026-03-08T12:01:00Z"
        ),
    ),
    "until before now": (
        {**without("for"), "until": "2026-03-01T13:00:00+01:00"},
        400,
        "until: '2026-03-01T13:00:00+01:00' is over: it is 2026-03-01T12:01:00Z",
    ),
    "until no time": (
        {**without("for"), "until": "tomorrow"},
        400,
        "until: 'tomorrow' is not a time such as 2026-03-01T12:00:00Z",
    ),
    "no such time": (
        {**without("for"), "until": "2026-02-31T12:00:00Z"},
        400,
        "until: '2026-02-31T12:00:00Z' is not a time such as 2026-03-01T12:00:00Z",
    ),
    "nobody": (without("by"), 400, "by: is required: who asks"),
    "an empty reason": ({**HOLD, "why": " \n"}, 400, "why: is required: a reason"),
    "a reason that is no text": ({**HOLD, "why": 7}, 400, "why: 7 is not text"),
    "a long reason": ({**HOLD, "why": "x" * 1001}, 400, "why: is longer than 1000 characters"),
    "a field too many": (
        {**HOLD, "untill": "x"},
        400,
        "untill: is not a field (did you mean 'until'?)",
    ),
}


@pytest.mark.parametrize(("body", "status", "why"), BAD_HOLDS.values(), ids=list(BAD_HOLDS))
def test_a_bad_hold_is_refused_in_one_sentence(
    here: Site, body: object, status: int, why: str
) -> None:
    assert here.send("/api/holds", body) == (status, {"error": why})
    assert nothing_happened(here)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "the body: is not JSON"),
        (b"null", "the body: is not JSON"),
        (b"[" * 10000, "the body: is not JSON"),
        (b'{"why": "' + b"x" * 20000 + b'"}', "the body: is larger than 16384 bytes"),
    ],
    ids=["cut off", "null", "deep", "large"],
)
def test_a_body_that_is_none_is_refused(here: Site, text: bytes, why: str) -> None:
    headers = {**BEARER, "Content-Type": "application/json"}
    answer = here.client.post("/api/holds", data=text, headers=headers)
    assert (answer.status_code, answer.json) == (400, {"error": why})


def test_a_time_may_have_a_zone(here: Site) -> None:
    body = {**without("for"), "until": "2026-03-01T15:30:00+02:00"}
    assert here.send("/api/holds", body)[1]["until"] == "2026-03-01T13:30:00Z"


def test_what_people_say_controls_no_terminal_and_no_log(
    here: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    body = {**HOLD, "why": "a\x1b[31m\nb", "by": "x\u202e\ny"}
    _, told = here.send("/api/holds", body)
    assert (told["why"], told["by"]) == ("a\ufffd[31m b", "x\ufffd y")
    assert "\x1b" not in caplog.text
    assert "event=held backend=gpu-a" in caplog.text


@pytest.mark.parametrize("act", ["why", "release", "reset", "restart"])
def test_an_unknown_backend_is_not_found(here: Site, act: str) -> None:
    why = {"error": "backend: 'gpu-z' is not a backend in fleet.yml (did you mean 'gpu-b'?)"}
    if act == "why":
        answer = here.client.get("/api/backends/gpu-z/why")
        assert answer.status_code == 404
        assert "is not a backend in fleet.yml" in (answer.json or {})["error"]
        return
    status, told = here.send(f"/api/backends/gpu-z/{act}", WHO)
    assert status == 404
    assert told["error"].startswith(why["error"].partition(" (")[0])


def test_a_restart_that_is_asked_for_is_done_and_told(here: Site) -> None:
    here.stage.witness.afterwards = BACK
    status, asked = here.send("/api/backends/gpu-a/restart", WHO)
    assert status == 202
    assert (asked["origin"], asked["asked_by"]) == ("person", "alice")
    here.stage.pass_(30)
    assert here.stage.restarter.restarted == ["gpu-a"]
    assert here.stage.gateways.drained == ["gpu-a"]
    incident = here.get(f"/api/incidents/{asked['id']}")
    assert incident["state"] == "closed"
    assert [line["reason"] for line in incident["journal"]] == ["planned", "already_handled"]
    (attempt,) = incident["attempts"]
    told = here.get(f"/api/attempts/{attempt['id']}")
    assert (told["state"], told["asked_by"], told["asked_why"]) == (
        *("recovered", "alice", "a new driver"),
    )


def test_a_restart_that_is_asked_for_wakes_the_worker(tmp_path: Path) -> None:
    with site(tmp_path) as here:
        woken: list[bool] = []
        here.stage.worker.wake = lambda: woken.append(True)  # type: ignore[method-assign]
        here.send("/api/backends/gpu-a/restart", WHO)
        assert woken == [True]


def test_a_restart_that_is_refused_is_closed_with_the_question_that_stood_against(
    here: Site,
) -> None:
    here.send("/api/holds", HOLD)
    _, asked = here.send("/api/backends/gpu-a/restart", WHO)
    here.stage.turn()
    incident = here.get(f"/api/incidents/{asked['id']}")
    assert (incident["state"], incident["reason"]) == ("closed", "held")
    last = incident["questions"][-1]
    assert (last["question"], last["stands_against"]) == ("held", True)
    assert last["asks"] == "Does a person or a batch job hold the backend?"
    assert incident["not_asked"][0] == "gave_up"
    assert here.stage.restarter.restarted == []


def test_a_backend_that_was_given_up_is_reset(here: Site) -> None:
    with here.stage.store.database.write() as connection:
        give_up(connection, "gpu-b", "3 restarts in a row did not help", at(0))
    row = here.get("/api/status")["backends"][0]
    assert (row["backend"], row["situation"], row["urgency"]) == ("gpu-b", "given_up", "person")
    assert row["given_up_at"] == "2026-03-01T12:00:00Z"
    status, told = here.send("/api/backends/gpu-b/reset", {"by": "alice"})
    assert (status, told["given_up_at"]) == (200, row["given_up_at"])
    assert told["given_up_why"] == "3 restarts in a row did not help"
    rows = here.get("/api/status")["backends"]
    assert {row["backend"]: row["given_up_at"] for row in rows}["gpu-b"] is None


def test_why_has_every_question_in_order_up_to_the_one_that_stood_against(here: Site) -> None:
    here.send("/api/holds", HOLD)
    here.stage.tell()
    here.stage.turn()
    why = here.get("/api/backends/gpu-a/why")
    assert why["decision"]["reason"] == "held"
    assert [question["question"] for question in why["questions"]] == [
        *("asked_for", "known_backend", "firing", "already_handled", "held"),
    ]
    assert [question["stands_against"] for question in why["questions"]] == [*[False] * 4, True]
    assert why["not_asked"][0] == "alert_stands"
    assert why["not_asked"][-1] == "as_alerted"


def test_after_the_alert_is_over_why_tells_of_the_decision_before(here: Site) -> None:
    here.stage.witness.afterwards = BACK
    here.stage.tell()
    here.stage.pass_(20)
    ended = making.alert(status="resolved", ends_at=here.stage.clock.now)
    here.stage.tell(ended)
    why = here.get("/api/backends/gpu-a/why")
    assert why["decision"]["reason"] in ("resolved", "already_handled")
    assert why["examined"]["reason"] in ("stuck", "already_handled")
    assert why["questions"]


def test_of_a_backend_that_nothing_was_decided_about_why_is_empty(here: Site) -> None:
    assert here.get("/api/backends/gpu-b/why") == {
        "backend": "gpu-b",
        "decision": None,
        "examined": None,
        "incident": None,
        "questions": [],
        "not_asked": [],
    }


@pytest.fixture
def restarted(here: Site) -> Site:
    """One whose gpu-a has been restarted, with evidence and a secret in the command's output."""
    stage = here.stage
    stage.restarter.outcome = Outcome(True, "fine", 0, "password=hunter2")  # noqa: FBT003
    stage.evidence.where = "/var/lib/evidence/20260301T120100Z-gpu-a-1"
    stage.witness.afterwards = BACK
    stage.tell()
    stage.pass_(60)
    assert stage.states == [AttemptState.RECOVERED]
    return here


def test_an_attempt_has_its_files_its_journal_and_its_loads(restarted: Site) -> None:
    told = restarted.get("/api/attempts/1")
    assert [file["name"] for file in told["files"]] == ["health.txt", "command-1-py-spy.txt"]
    assert told["journal"][0]["reason"] == "stuck"
    assert told["load_seconds"] is not None
    assert told["drained"] == "no stream was left on it"
    assert told["alertname"] == "VLLMEngineStuck"


def test_what_programs_printed_is_shown_to_who_bears_the_token_only(restarted: Site) -> None:
    assert restarted.get("/api/attempts/1")["output"] is None
    assert restarted.get("/api/attempts/1", **BEARER)["output"] == "password=hunter2"
    wrong = {"Authorization": "Bearer wrong"}
    assert restarted.client.get("/api/attempts/1", headers=wrong).status_code == 401
    file = "/api/attempts/1/evidence/command-1-py-spy.txt"
    assert restarted.client.get(file).status_code == 401
    answer = restarted.client.get(file, headers=BEARER)
    assert answer.text == "stack <b>\x1b[31m"
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Disposition"] == "attachment"


def test_nothing_that_is_open_shows_what_a_command_printed(restarted: Site) -> None:
    paths = [
        rule.rule for rule in restarted.app.url_map.iter_rules() if "GET" in (rule.methods or ())
    ]
    open_to_all = [
        path.replace("<int(max=2147483647):number>", "1").replace("<name>", "gpu-a")
        for path in paths
        if "<file>" not in path and "static" not in path
    ]
    assert len(open_to_all) > 12
    for path in open_to_all:
        answer = restarted.client.get(path)
        assert answer.status_code == 200, path
        assert "hunter2" not in answer.text, path


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/api/attempts/2", "there is no attempt 2"),
        ("/api/incidents/9", "there is no incident 9"),
        ("/api/attempts/1/evidence/passwd", "'passwd' is no file of evidence"),
        ("/api/attempts?backend=gpu", "backend: 'gpu' is not a backend in fleet.yml"),
    ],
)
def test_what_is_not_there_is_not_found(restarted: Site, path: str, why: str) -> None:
    answer = restarted.client.get(path, headers=BEARER)
    assert answer.status_code == 404
    assert (answer.json or {})["error"].startswith(why)


def test_evidence_is_read_from_its_folder_and_from_nowhere_else(here: Site, tmp_path: Path) -> None:
    folder = tmp_path / "20260301T120100Z-gpu-a-1"
    folder.mkdir()
    (folder / "health.txt").write_text("200 \x1b[31m\n")
    (folder / "models.json").symlink_to(here.token_file)
    here.stage.evidence.where = str(folder)
    here.stage.tell()
    here.stage.pass_(20)
    client = create_app(replace(here.desk, saved=in_folder)).test_client()
    told = client.get("/api/attempts/1").json or {}
    assert told["files"] == [{"name": "health.txt", "size": 10}]
    path = "/api/attempts/1/evidence"
    assert client.get(f"{path}/health.txt", headers=BEARER).text == "200 \ufffd[31m\n"
    for name in ("models.json", "..%2Fapi-token", "api-token", ".."):
        assert client.get(f"{path}/{name}", headers=BEARER).status_code == 404, name
    (folder / "models.json").unlink()
    (folder / "health.txt").unlink()
    folder.rmdir()
    assert (client.get("/api/attempts/1").json or {})["files"] is None


def test_evidence_that_was_not_saved_is_not_found(here: Site) -> None:
    here.stage.tell()
    here.stage.pass_(20)
    assert here.get("/api/attempts/1")["files"] is None
    answer = here.client.get("/api/attempts/1/evidence/health.txt", headers=BEARER)
    assert (answer.status_code, answer.json) == (404, {"error": "attempt 1 has no evidence"})


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1", "1e3", "9" * 400])
def test_a_limit_that_is_none_is_refused(here: Site, limit: str) -> None:
    answer = here.client.get(f"/api/attempts?limit={limit}")
    assert answer.status_code == 400


def test_attempts_are_those_of_a_backend_and_no_more_than_wanted(restarted: Site) -> None:
    assert len(restarted.get("/api/attempts?backend=gpu-a&limit=1")) == 1
    assert restarted.get("/api/attempts?backend=gpu-b") == []


def test_the_status_of_a_backend_that_was_restarted(restarted: Site) -> None:
    when = at(-3600)
    restarted.stage.store.records.note(Start("gpu-b", when, when, Whose.FOREIGN))
    fleet = restarted.get("/api/status")
    rows = {row["backend"]: row for row in fleet["backends"]}
    row = rows["gpu-a"]
    assert row["situation"] == "cooling_down"
    assert (row["restarts"], row["restarts_left"]) == (1, 3)
    assert (fleet["restarts"], fleet["restarts_left"], fleet["mode"]) == (1, 2, "act")
    assert row["cool_down_until"] is not None
    assert row["last_restart_at"] is not None
    assert row["restart"] == "the command true"
    assert row["against_restart"]["question"] == "cooling_down"
    assert rows["gpu-b"]["last_foreign_restart_at"] == "2026-03-01T11:00:00Z"
    assert rows["router"]["situation"] == "not_restarted"
    assert [row["backend"] for row in fleet["backends"]] == ["gpu-a", "gpu-b", "router"]


def test_a_worker_that_stalls_is_said(here: Site) -> None:
    here.stage.turn()
    here.stage.clock.advance(60)
    assert here.get("/api/status")["trouble"] == "no turn for 60 s"


def test_the_report_of_what_shadow_mode_saw(tmp_path: Path) -> None:
    with site(tmp_path, mode=Mode.SHADOW) as here:
        here.stage.tell()
        here.stage.pass_(10)
        assert here.get("/api/status")["backends"][0]["situation"] == "watched"
        here.stage.pass_(86400, tick=3600)
        told = here.get("/api/shadow")
        assert told["cases"] + told["outcomes"]["not_seen"] >= 1
        assert set(told["outcomes"]) == set(ShadowOutcome)
        assert here.stage.restarter.restarted == []
        here.stage.clock.advance(timedelta(days=31).total_seconds())
        assert here.get("/api/shadow")["cases"] == 0
        assert here.get("/api/shadow?since=60d")["backends"][0]["backend"] == "gpu-a"
        answer = here.client.get("/api/shadow?since=never")
        assert answer.status_code == 400


def test_over_a_real_socket_a_batch_job_holds_and_releases(here: Site) -> None:
    with served(here.app) as url, turning(here.stage):
        made = requests.post(f"{url}/api/holds", json=HOLD, headers=BEARER, timeout=10)
        assert made.status_code == 201
        asked = requests.post(
            f"{url}/api/backends/gpu-a/restart", json=WHO, headers=BEARER, timeout=10
        ).json()
        assert comes_to(f"{url}/api/incidents/{asked['id']}", "state", "closed")["reason"] == "held"
        number = made.json()["id"]
        gone = requests.delete(
            f"{url}/api/holds/{number}", json={"by": "job-17"}, headers=BEARER, timeout=10
        )
        assert gone.status_code == 200
        assert requests.get(f"{url}/api/holds", timeout=10).json() == []


def comes_to(url: str, field: str, value: str) -> Any:  # noqa: ANN401 -- JSON
    """What stands there once the field has this value."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        told = requests.get(url, timeout=10).json()
        if told[field] == value:
            return told
        time.sleep(0.05)
    raise AssertionError(told)
