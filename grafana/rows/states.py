"""Row 2: the state of every backend and engine over time."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.builders.statetimeline import Panel as StateTimeline

from grafana.panels import query, timeline
from grafana.selectors import ENGINE
from grafana.states import as_number, mappings


def states(builder: Dashboard) -> Dashboard:
    """Add the row."""

    def states(
        title: str, description: str, series: str, labels: str, legend: str
    ) -> StateTimeline:
        target = query(as_number(series, labels), legend)
        return timeline(title, description, target, mappings=mappings())

    return (
        builder.with_row(Row("What state is each server in?"))
        .with_panel(
            states(
                "Backends",
                "The state of each server; of several engines, the one that most wants a person.",
                "vllm_backend_state",
                "backend",
                "{{backend}}",
            )
        )
        .with_panel(
            states(
                "Engines",
                "The state of each engine. Nothing is drawn while the server's page cannot be "
                "read.",
                "vllm_engine_state",
                "backend, engine",
                ENGINE,
            )
        )
    )
