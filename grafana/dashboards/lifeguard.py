"""The dashboard of the servers: is anything stuck, is anything being restarted, and why (not)."""

from grafana_foundation_sdk.models.dashboard import Dashboard as DashboardModel

from grafana.dashboards.frame import begun, choice, finished
from grafana.rows.glance import glance
from grafana.rows.restarts import restarts
from grafana.rows.silence import silence
from grafana.rows.states import states
from grafana.rows.watchers import watchers
from grafana.rows.work import work

UID = "vllm-lifeguard"
ROWS = (glance, states, silence, work, restarts, watchers)


def dashboard() -> DashboardModel:
    """Build it anew; equal inputs give equal dashboards."""
    builder = begun(
        "vLLM lifeguard",
        UID,
        "What lifeguard sees of every vLLM server, and what it does about it.",
    ).with_variable(choice("backend", "Backend", "label_values(vllm_backend_up, backend)"))
    for row in ROWS:
        builder = row(builder)
    return finished(builder)
