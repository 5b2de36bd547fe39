"""The dashboard of the servers: is anything stuck, is anything being restarted, and why (not)."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models.dashboard import Dashboard as DashboardModel

from grafana.annotations import Annotation
from grafana.dashboards.frame import begun, choice, finished
from grafana.panels import DATASOURCE
from grafana.rows.glance import glance
from grafana.rows.restarts import restarts
from grafana.rows.silence import silence
from grafana.rows.states import states
from grafana.rows.watchers import watchers
from grafana.rows.work import work
from grafana.selectors import BACKEND

UID = "vllm-lifeguard"
ROWS = (glance, states, silence, work, restarts, watchers)


def dashboard() -> DashboardModel:
    """Build it anew; equal inputs give equal dashboards."""
    builder = begun(
        "vLLM lifeguard",
        UID,
        "What lifeguard sees of every vLLM server, and what it does about it.",
    ).with_variable(choice("backend", "Backend", "label_values(vllm_backend_up, backend)"))
    builder = _annotations(builder)
    for row in ROWS:
        builder = row(builder)
    return finished(builder)


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
