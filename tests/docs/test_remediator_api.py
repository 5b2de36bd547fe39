"""The documentation of the remediator's API is what the code has."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import pytest

from remediator import wish
from remediator.api import MOST_ROWS
from remediator.decision import Answer
from remediator.overview import URGENCIES, BackendRow, FleetRow, Situation, Urgency
from remediator.reasoning import Why
from remediator.record import HoldBack
from remediator.rows import (
    QuestionRow,
    attempt_row,
    decision_row,
    hold_row,
    incident_row,
    question_row,
)
from remediator.shadow import FEWEST_CASES, Report, ShadowRow, Spread
from tests.remediator import making
from tests.remediator.making import T0
from tests.remediator.site import Site, site
from tests.remediator.stage import BACK

PAGE = (Path(__file__).parents[2] / "docs" / "remediator-api.md").read_text()


def documented(heading: str, column: str = "field") -> list[str]:
    """The first cells of the table with this first column below a heading."""
    section = re.split(rf"^#+ {heading}\n", PAGE, maxsplit=1, flags=re.MULTILINE)[1]
    table = section.split(f"| {column} |")[1].split("\n\n")[0]
    return re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)


@pytest.mark.parametrize(
    ("heading", "row"),
    [("Fleet", FleetRow), ("Backend", BackendRow), ("Why", Why), ("Question", QuestionRow)],
)
def test_every_field_is_documented_in_order_and_no_other_is(heading: str, row: type) -> None:
    assert documented(heading) == list(row.__annotations__)


def test_every_field_of_a_row_is_documented_in_order_and_no_other_is() -> None:
    hold = HoldBack(1, "gpu-a", T0, T0, "alice", "why")
    assert documented("Hold") == list(hold_row(hold))
    assert documented("Incident") == list(incident_row(making.incident()))
    assert documented("Attempt") == list(attempt_row(making.attempt()))
    assert documented("Question") == list(question_row(Answer("held", "", stands_against=True)))


def test_every_field_of_the_report_is_documented() -> None:
    assert documented("Shadow report") == ["since", *Report.__annotations__]
    row = next(line for line in PAGE.splitlines() if line.startswith("| `backends` | for each"))
    assert re.findall(r"`(\w+)`", row)[1:] == list(ShadowRow.__annotations__)
    row = next(line for line in PAGE.splitlines() if line.startswith("| `came_back_after` |"))
    assert re.findall(r"`(\w+)`", row)[1:-1] == list(Spread.__annotations__)
    assert f"fewer than {FEWEST_CASES} cases" in PAGE


def test_every_situation_and_urgency_is_documented() -> None:
    assert documented("Backend", column="situation") == list(Situation)
    assert list(URGENCIES) == list(Situation)
    (row,) = re.findall(r"^\| `urgency` \|.*$", PAGE, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row)[1:] == list(Urgency)


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as made:
        made.stage.witness.afterwards = BACK
        made.stage.tell()
        made.stage.pass_(20)
        yield made


def test_what_one_incident_and_one_attempt_have_more_is_documented(restarted: Site) -> None:
    decision = decision_row(restarted.stage.store.incidents.newest_decisions(1)[0])
    assert documented("Decision") == list(decision)
    for heading, path in (("incident", "incidents"), ("attempt", "attempts")):
        more = set(documented(f"One {heading}"))
        assert set(documented(heading.capitalize())) | more == set(restarted.get(f"/api/{path}/1"))


def test_every_path_is_documented_with_its_method_and_no_other_is(restarted: Site) -> None:
    names = {"<int(max=2147483647):number>": "ID", "<name>": "NAME", "<file>": "FILE"}
    served = set()
    for rule in restarted.app.url_map.iter_rules():
        path = rule.rule
        for part, name in names.items():
            path = path.replace(part, name)
        methods = (rule.methods or set()) - {"HEAD", "OPTIONS"}
        served |= {(method, path) for method in methods if path.startswith("/api/")}
    table = PAGE.split("## Paths\n")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| (\w+) \| `([^`]+)` \|", table, re.MULTILINE)) == served


def test_every_status_of_a_refusal_is_documented() -> None:
    assert re.findall(r"^\| (\d{3}) \|", PAGE, re.MULTILINE) == [
        str(int(status))
        for status in (
            HTTPStatus.BAD_REQUEST,
            HTTPStatus.UNAUTHORIZED,
            HTTPStatus.FORBIDDEN,
            HTTPStatus.NOT_FOUND,
            HTTPStatus.SERVICE_UNAVAILABLE,
        )
    ]


def test_the_bounds_are_those_of_the_code() -> None:
    assert f"at most {wish.MOST_BY} characters" in PAGE
    assert f"at most {wish.MOST_WHY:,} characters" in PAGE
    assert f"(1 to {MOST_ROWS})" in PAGE
