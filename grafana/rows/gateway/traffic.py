"""Row 2: where requests are, and where they may go."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models.dashboard import ValueMap, ValueMapping, ValueMappingResult

from gateway.standing import Traffic
from grafana.panels import lines, query, timeline
from grafana.selectors import BACKEND, MODEL

# The worst is last, so that the maximum of what several gateways see is the worst of it.
COLOURS = {
    Traffic.UP: "green",
    Traffic.DRAINING: "blue",
    Traffic.DRAINED: "purple",
    Traffic.DOWN: "red",
}


def traffic(builder: Dashboard) -> Dashboard:
    """Add the row."""
    terms = " or ".join(
        f'{i} * gateway_backend_traffic{{{BACKEND}, traffic="{word}"}} > 0'
        for i, word in enumerate(COLOURS, start=1)
    )
    return (
        builder.with_row(Row("Where are the requests?"))
        .with_panel(
            timeline(
                "Traffic",
                "Whether the gateways send requests to each backend. Where they differ, the worst.",
                query(f"max by (backend) ({terms})", "{{backend}}"),
                mappings=_words(),
            )
        )
        .with_panel(
            lines(
                "In flight by backend",
                "Requests that are at each backend, from all gateways.",
                query(
                    f"sum by (backend) (gateway_backend_in_flight{{{BACKEND}}})",
                    "{{backend}}",
                ),
                unit="none",
            )
        )
        .with_panel(
            lines(
                "In flight by model",
                "Requests that have no end yet, for each model that a backend lists.",
                query(f"sum by (model) (gateway_model_in_flight{{{MODEL}}})", "{{model}}"),
                unit="none",
            )
        )
    )


def _words() -> list[ValueMapping]:
    return [
        ValueMap(
            options={
                str(i): ValueMappingResult(text=word, color=colour, index=i)
                for i, (word, colour) in enumerate(COLOURS.items(), start=1)
            }
        )
    ]
