"""Row 5: what was restarted, what was not, and why."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models.dashboard import ValueMap, ValueMappingResult

from grafana.panels import HIGH, bars, now, number, query, timeline
from grafana.selectors import BACKEND


def restarts(builder: Dashboard) -> Dashboard:
    """Add the row."""
    held = f"max by (backend, reason) (remediator_held{{{BACKEND}}} == 1)"
    given_up = f"2 * max by (backend, reason) (remediator_escalated{{{BACKEND}}} == 1)"
    return (
        builder.with_row(Row("What was restarted, what was not, and why?"))
        .with_panel(
            timeline(
                "Held and given up",
                "Why a server that ought to be restarted is not: held for now, or given up until "
                "a person acts.",
                query(held, "{{backend}}: {{reason}}"),
                query(given_up, "{{backend}}: {{reason}}", "B"),
                mappings=[
                    ValueMap(
                        options={
                            "1": ValueMappingResult(text="held", color="orange", index=0),
                            "2": ValueMappingResult(text="given up", color="red", index=1),
                        }
                    )
                ],
                height=HIGH,
                width=18,
            )
        )
        .with_panel(
            number(
                "Last restart by lifeguard",
                "When lifeguard last began to restart each server.",
                now(
                    "1000 * max by (backend) "
                    f"(remediator_last_restart_timestamp_seconds{{{BACKEND}}} > 0)",
                    "{{backend}}",
                ),
                unit="dateTimeFromNow",
                steps=[(None, "text")],
                width=6,
                nothing="never",
            ).height(HIGH)
        )
        .with_panel(
            bars(
                "Restarts",
                "Restarts that the exporter saw, by whomever, and those that lifeguard began. "
                "One that only the exporter has is somebody else's.",
                query(
                    "max by (backend) "
                    f"(increase(vllm_backend_restarts_total{{{BACKEND}}}[$__rate_interval])) > 0",
                    "{{backend}} seen",
                ),
                query(
                    "max by (backend) "
                    f"(increase(remediator_restarts_total{{{BACKEND}}}[$__rate_interval])) > 0",
                    "{{backend}} by lifeguard",
                    "B",
                ),
                unit="none",
                width=8,
            )
        )
        .with_panel(
            bars(
                "Decisions",
                "What was decided about open incidents, with the reason, whenever it changed.",
                query(
                    "sum by (action, reason) "
                    "(increase(remediator_decisions_total[$__rate_interval])) > 0",
                    "{{action}}: {{reason}}",
                ),
                unit="none",
                width=8,
            )
        )
        .with_panel(
            bars(
                "Attempts by outcome",
                "How restarts ended. Anything but recovered wants a person.",
                query(
                    "max by (backend, outcome) "
                    f"(increase(remediator_attempts_total{{{BACKEND}}}[$__rate_interval])) > 0",
                    "{{backend}}: {{outcome}}",
                ),
                unit="none",
                width=8,
            )
        )
    )
