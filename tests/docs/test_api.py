"""The documentation of /api/backends is what the code has."""

import re
from pathlib import Path

import pytest

from exporter.rates import MOST_LOOKS, Seen
from exporter.view import HEADINGS, RUNBOOK, STALE, BackendRow, EngineRow, LookRow, Urgency

ROOT = Path(__file__).parents[2]
API = (ROOT / "docs" / "api.md").read_text()
RUNBOOK_PAGE = (ROOT / "docs" / "runbook.md").read_text()
ALERTS = (ROOT / "rules" / "alerts.yml").read_text()


def documented(heading: str, column: str = "field") -> list[str]:
    """The first cells of the table with this first column below a heading."""
    table = API.split(f"## {heading}\n")[1].split("\n## ")[0].split(f"| {column} |")[1]
    return re.findall(r"^\| `(\w+)` \|", table.split("\n\n")[0], re.MULTILINE)


@pytest.mark.parametrize(
    ("heading", "row"), [("Backend", BackendRow), ("Engine", EngineRow), ("Look", LookRow)]
)
def test_every_field_is_documented_in_order_and_no_other_is(heading: str, row: type) -> None:
    assert documented(heading) == list(row.__annotations__)


def test_every_kind_of_look_is_documented() -> None:
    assert documented("Look", column="seen") == list(Seen)
    assert f"the last {MOST_LOOKS} looks" in API


def test_every_urgency_is_documented() -> None:
    (row,) = re.findall(r"^\| `urgency` \|.*$", API, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row)[1:] == list(Urgency)


@pytest.mark.parametrize("heading", sorted({*HEADINGS.values(), STALE}))
def test_the_runbook_has_the_heading_where_the_alerts_say_it_is(heading: str) -> None:
    assert f"\n## {heading}\n" in RUNBOOK_PAGE
    assert f"runbook_url: {RUNBOOK}#{heading.lower()}\n" in ALERTS
