"""The dashboard of the gateway: what clients see, where requests are, and whether it is billed."""

from grafana_foundation_sdk.models.dashboard import Dashboard as DashboardModel

from grafana.dashboards.frame import begun, choice, finished
from grafana.rows.gateway.clients import clients
from grafana.rows.gateway.cost import cost
from grafana.rows.gateway.ends import ends
from grafana.rows.gateway.traffic import traffic

UID = "vllm-lifeguard-gateway"
ROWS = (clients, traffic, ends, cost)


def dashboard() -> DashboardModel:
    """Build it anew; equal inputs give equal dashboards."""
    builder = begun(
        "vLLM lifeguard gateway",
        UID,
        "What clients see of the gateways, and what the gateways do for them.",
    )
    builder = builder.with_variable(
        choice("backend", "Backend", "label_values(gateway_backend_traffic, backend)")
    ).with_variable(choice("model", "Model", "label_values(gateway_model_in_flight, model)"))
    for row in ROWS:
        builder = row(builder)
    return finished(builder)
