"""What all dashboards have in common: how they look, refresh, link and choose their data."""

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
from grafana.selectors import BACKEND

RUNBOOK = "https://github.com/vllm-lifeguard/vllm-lifeguard/blob/main/docs/runbook.md"


def begun(title: str, uid: str, description: str) -> Dashboard:
    """A dashboard without rows, that chooses a Prometheus and marks restarts."""
    builder = (
        Dashboard(title)
        .uid(uid)
        .description(description)
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
        .with_variable(
            DatasourceVariable("datasource")
            .label("Prometheus")
            .type("prometheus")
            .current(VariableOption(selected=True, text="Prometheus", value="prometheus"))
        )
    )
    return _annotations(builder)


def choice(name: str, label: str, query: str) -> QueryVariable:
    """A variable of which several values may be chosen; all are, at first."""
    return (
        QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(query)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
        .current(VariableOption(selected=True, text=["All"], value=["$__all"]))
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )


def finished(builder: Dashboard) -> DashboardModel:
    """The model, its panels numbered."""
    model = builder.build()
    for i, panel in enumerate(model.panels or [], start=1):
        panel.id_val = i
    return model


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
