"""The table of questions in the documentation is the code's: names, order, reasons, actions."""

import ast
import inspect
import re
from pathlib import Path

import pytest

from remediator import decision, limits, policy, verdict
from remediator.decision import RECORDED, Action, Reason
from remediator.incident import Origin
from remediator.questions import ORDER, asks

PAGE = (Path(__file__).parents[2] / "docs" / "decision.md").read_text()
ROW = re.compile(r"^\| `(?P<name>\w+)` \|(?P<rest>.*)\|$", re.MULTILINE)
MODULES = (policy, limits, verdict, decision)


def rows() -> dict[str, list[str]]:
    """The cells of each question's row behind its name."""
    table = PAGE.split("## Questions\n")[1].split("\n## ")[0]
    return {
        row["name"]: [cell.strip() for cell in row["rest"].split("|")]
        for row in ROW.finditer(table)
    }


def test_every_question_stands_there_in_the_order_in_which_alerts_and_people_are_asked() -> None:
    found = rows()
    asked = {
        Origin.ALERT: [name for name, cells in found.items() if "alert" in cells[1]],
        Origin.PERSON: [name for name, cells in found.items() if "person" in cells[1]],
    }
    assert {origin: tuple(names) for origin, names in asked.items()} == ORDER


@pytest.mark.parametrize("name", list(rows()))
def test_a_question_is_asked_in_the_codes_words(name: str) -> None:
    assert rows()[name][0] == asks(name)


@pytest.mark.parametrize("name", list(rows()))
def test_the_actions_and_reasons_of_a_question_are_the_codes(name: str) -> None:
    cell = rows()[name][2]
    documented = set(re.findall(r"\b([a-z]+), `(\w+)`", cell))
    assert {reason for _, reason in documented} == reasons_of(name)
    known = {(str(action), str(reason)) for action, reason in RECORDED}
    assert documented <= known


def test_every_decision_that_is_ever_recorded_stands_there() -> None:
    documented = set(re.findall(r"\b([a-z]+), `(\w+)`", PAGE))
    assert documented == {(str(action), str(reason)) for action, reason in RECORDED}


def test_every_action_is_explained() -> None:
    table = PAGE.split("## Actions\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(Action)


def reasons_of(name: str) -> set[str]:
    """The reasons in a question's function, and in all of these modules that it uses."""
    known = {
        node.name: node
        for module in MODULES
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.FunctionDef)
    }
    constants = {
        target.id: node
        for module in MODULES
        for node in ast.parse(inspect.getsource(module)).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in ("NOT_ACTIVE", "RESOLVED")
    }
    seen: set[str] = set()
    found: set[str] = set()

    def look(node: ast.AST) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute) and getattr(inner.value, "id", "") == "Reason":
                found.add(Reason[inner.attr])
            of = {**known, **constants}.get(getattr(inner, "id", ""))
            if of is not None and inner.id not in seen:  # type: ignore[attr-defined]
                seen.add(inner.id)  # type: ignore[attr-defined]
                look(of)

    seen.add(name)
    look(known[name])
    return found


def test_what_a_question_can_come_to_is_found_in_its_code() -> None:
    assert reasons_of("alert_stands") == {
        *(Reason.GONE, Reason.SUPERSEDED, Reason.SILENCED, Reason.INHIBITED),
        Reason.ALERTMANAGER_UNREACHABLE,
    }
    assert reasons_of("dead") == {Reason.DEAD, Reason.CANNOT_VERIFY}
