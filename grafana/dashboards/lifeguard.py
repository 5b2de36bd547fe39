"""The one dashboard: is anything stuck, is anything being restarted, and why (not)."""

from grafana_foundation_sdk.builders.dashboard import (
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
)
from grafana_foundation_sdk.models.dashboard import Dashboard as DashboardModel
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from grafana.annotations import Annotation
from grafana.panels import DATASOURCE
from grafana.rows.glance import glance
from grafana.rows.restarts import restarts
from grafana.rows.silence import silence
from grafana.rows.states import states
from grafana.rows.watchers import watchers
from grafana.rows.work import work
from grafana.selectors import BACKEND

UID = "vllm-lifeguard"
RUNBOOK = "https://github.com/vllm-lifeguard/vllm-lifeguard/blob/main/docs/runbook.md"
ROWS = (glance, states, silence, work, restarts, watchers)


def dashboard() -> DashboardModel:
    """Build it anew; equal inputs give equal dashboards."""
    builder = (
        Dashboard("vLLM lifeguard")
        .uid(UID)
        .description("What lifeguard sees of every vLLM server, and what it does about it.")
        .tags(["vllm", "lifeguard"])
        .readonly()
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(
            DashboardLink("Runbook")
            .type(DashboardLinkType.LINK)
            .icon("doc")
            .url(RUNBOOK)
            .target_blank(target_blank=True)
        )
    )
    builder = _variables(builder)
    builder = _annotations(builder)
    for row in ROWS:
        builder = row(builder)
    model = builder.build()
    for i, panel in enumerate(model.panels or [], start=1):
        panel.id_val = i
    return model


def _variables(builder: Dashboard) -> Dashboard:
    return builder.with_variable(
        DatasourceVariable("datasource")
        .label("Prometheus")
        .type("prometheus")
        .current(VariableOption(selected=True, text="Prometheus", value="prometheus"))
    ).with_variable(
        QueryVariable("backend")
        .label("Backend")
        .datasource(DATASOURCE)
        .query("label_values(vllm_backend_up, backend)")
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )


def _annotations(builder: Dashboard) -> Dashboard:
    return builder.annotation(
        Annotation(
            "Restarts seen",
            f"max by (backend) (increase(vllm_backend_restarts_total{{{BACKEND}}}[75s])) > 0",
            title="{{backend}} restarted",
            colour="purple",
            datasource=DATASOURCE,
        )
    ).annotation(
        Annotation(
            "Restarts by lifeguard",
            f"max by (backend) (increase(remediator_restarts_total{{{BACKEND}}}[75s])) > 0",
            title="lifeguard restarts {{backend}}",
            colour="blue",
            datasource=DATASOURCE,
        )
    )
