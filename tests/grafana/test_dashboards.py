"""The built dashboards are what the code builds, and every query in them can be answered."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.models.dashboard import Dashboard

import exporter.families
import gateway.families
import remediator.families
from demo import parts
from fleet.state import State
from gateway.standing import Traffic
from grafana.build import BUILT, DASHBOARDS, rendered
from grafana.promql import grouping_labels, selectors
from grafana.queries import Query, queries
from grafana.rows.gateway.traffic import COLOURS
from grafana.states import BEST_FIRST, LOOKS

ROOT = Path(__file__).parents[2]
# Gateways differ in what they tell, so their addresses may be shown.
OF_GATEWAYS = {name: (*labels, "instance") for name, labels in gateway.families.NAMES.items()}
NAMES = {
    **exporter.families.NAMES,
    **remediator.families.NAMES,
    **OF_GATEWAYS,
    **{f"{name}_bucket": ("le", "instance") for name in gateway.families.HISTOGRAMS},
    "up": ("job",),
}
MODELS: dict[str, dict[str, Any]] = {
    file.name: json.loads(file.read_text()) for file in sorted(BUILT.glob("*.json"))
}
MODEL = MODELS["lifeguard.json"]
PANELS: list[dict[str, Any]] = [
    panel for model in MODELS.values() for panel in model["panels"] if panel["type"] != "row"
]
QUERIES = queries()

each_dashboard = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
each_query = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.panel)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_built_dashboard_equals_a_rebuild(name: str) -> None:
    built = (BUILT / name).read_text()
    assert built == rendered(DASHBOARDS[name]()), "run: python -m grafana.build"


def test_nothing_else_is_built() -> None:
    assert {file.name for file in BUILT.iterdir()} == set(DASHBOARDS)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_building_twice_gives_the_same(name: str) -> None:
    assert rendered(DASHBOARDS[name]()) == rendered(DASHBOARDS[name]())


def test_links_to_the_dashboards_stay_good() -> None:
    assert {name: model["uid"] for name, model in MODELS.items()} == {
        "gateway.json": "vllm-lifeguard-gateway",
        "lifeguard.json": "vllm-lifeguard",
    }


@each_dashboard
def test_grafanas_own_types_read_it_back_unchanged(model: dict[str, Any]) -> None:
    again = Dashboard.from_json(model)
    assert again.uid == model["uid"]
    panels = json.loads(rendered(again))["panels"]
    assert panels == model["panels"]


@each_panel
def test_a_panel_says_what_it_shows_in_which_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert all(target["legendFormat"] for target in panel["targets"])
    if panel["type"] in {"timeseries", "state-timeline"}:
        assert panel["options"]["legend"]["showLegend"] is True
    if panel["type"] == "stat":
        assert panel["fieldConfig"]["defaults"]["noValue"], "no data must not look like zero"


@each_panel
def test_a_panel_asks_the_chosen_data_source(panel: dict[str, Any]) -> None:
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert panel["datasource"] == chosen
    assert all(target["datasource"] == chosen for target in panel["targets"])
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references)


@each_dashboard
def test_panels_neither_overlap_nor_leave_the_grid(model: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in model["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24, panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in model["panels"]}) == len(model["panels"])


def test_the_first_row_says_whether_anything_is_stuck_or_being_restarted() -> None:
    row = [panel["title"] for panel in MODEL["panels"] if panel["gridPos"]["y"] == 1]
    assert row[:2] == ["Stuck or dead", "Being restarted"]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [("lifeguard.json", ["backend"]), ("gateway.json", ["backend", "model"])],
)
def test_the_variables_choose_a_data_source_and_backends(name: str, chosen: list[str]) -> None:
    variables = {v["name"]: v for v in MODELS[name]["templating"]["list"]}
    assert list(variables) == ["datasource", *chosen]
    assert all(variables[each]["allValue"] == ".*" for each in chosen)
    for each in chosen:
        for selector in selectors(
            re.sub(r"label_values\((\w+), \w+\)", r"\1", query_of(variables[each]))
        ):
            assert each in NAMES[selector.metric]
    provisioned = yaml.safe_load(
        (ROOT / "grafana" / "provisioning" / "datasources" / "prometheus.yml").read_text()
    )["datasources"]
    assert variables["datasource"]["current"]["value"] in {d["uid"] for d in provisioned}


def query_of(variable: dict[str, Any]) -> str:
    """The text of a variable's query, however Grafana's types hold it."""
    said = variable["query"]
    return str(said if isinstance(said, str) else said["query"])


def test_the_dashboards_words_for_traffic_are_the_gateways() -> None:
    assert list(COLOURS) == list(Traffic)


def test_restarts_are_marked_on_the_time_axis() -> None:
    marks = {mark["name"]: mark for mark in MODEL["annotations"]["list"]}
    assert {"Restarts seen", "Restarts by lifeguard"} <= set(marks)
    assert all(mark["enable"] and mark["expr"] and mark["titleFormat"] for mark in marks.values())


def test_every_state_has_a_word_a_number_and_a_colour_of_its_own() -> None:
    assert {look.state for look in LOOKS} == set(State)
    assert len({look.colour for look in LOOKS}) == len(LOOKS)
    assert [look.number for look in LOOKS] == list(range(1, len(State) + 1))
    assert [state for state, _ in BEST_FIRST][-2:] == [State.ENGINE_DEAD, State.STUCK]


@each_query
def test_a_query_uses_metrics_and_labels_that_exist(query: Query) -> None:
    known: set[str] = set()
    for selector in selectors(query.expr):
        assert selector.labels <= set(NAMES[selector.metric]), selector
        known |= set(NAMES[selector.metric])
    assert grouping_labels(query.expr) <= known


@each_query
def test_a_query_has_no_variable_left_and_no_address_of_an_exporter(query: Query) -> None:
    assert "$" not in query.expr
    if not all(selector.metric in OF_GATEWAYS for selector in selectors(query.expr)):
        assert "instance" not in query.expr


@each_panel
def test_a_legend_uses_labels_that_the_query_keeps(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        shown = {part.split("}}")[0] for part in target["legendFormat"].split("{{")[1:]}
        assert shown <= grouping_labels(target["expr"])


def test_prometheus_can_parse_every_query(tmp_path: Path) -> None:
    rules = [{"record": f"query:{i}", "expr": q.expr} for i, q in enumerate(QUERIES)]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = subprocess.run(
        [parts.find().promtool, "check", "rules", str(file)],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_provisioned_folder_is_where_the_dashboards_are_mounted() -> None:
    provider = yaml.safe_load(
        (ROOT / "grafana" / "provisioning" / "dashboards" / "lifeguard.yml").read_text()
    )["providers"][0]
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    mounts = dict(mount.split(":")[:2][::-1] for mount in compose["services"]["grafana"]["volumes"])
    assert mounts[provider["options"]["path"]] == "./grafana/built"
