"""Row 1: whether anything is stuck or being restarted, at a glance."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models.dashboard import ValueMap, ValueMappingResult

from grafana.panels import ANY_IS_NEWS, NONE_IS_BETTER, NONE_IS_GOOD, now, number
from grafana.selectors import BACKEND


def glance(builder: Dashboard) -> Dashboard:
    """Add the row."""

    def in_state(*states: str) -> str:
        named = "|".join(states)
        return f'sum(max by (backend, state) (vllm_backend_state{{{BACKEND}, state=~"{named}"}}))'

    held_or_given_up = (
        f"count(max by (backend) (remediator_held{{{BACKEND}}} == 1"
        f" or remediator_escalated{{{BACKEND}}} == 1))"
        " or 0 * max(remediator_attempts_in_progress)"
    )
    return (
        builder.with_row(Row("Is anything stuck, is anything being restarted?"))
        .with_panel(
            number(
                "Stuck or dead",
                "Servers that are proven stuck or whose engine is dead. Only these are ever "
                "restarted.",
                now(in_state("stuck", "engine_dead"), "stuck or dead"),
                unit="none",
                steps=NONE_IS_GOOD,
                width=4,
                nothing="no exporter",
            )
        )
        .with_panel(
            number(
                "Being restarted",
                "Restarts that lifeguard has begun and not yet seen the end of.",
                now("max(remediator_attempts_in_progress)", "in progress"),
                unit="none",
                steps=ANY_IS_NEWS,
                width=4,
                nothing="no remediator",
            )
        )
        .with_panel(
            number(
                "Held or given up",
                "Servers that ought to be restarted and are not. The reasons are further down.",
                now(held_or_given_up, "held or given up"),
                unit="none",
                steps=NONE_IS_BETTER,
                width=4,
                nothing="no remediator",
            )
        )
        .with_panel(
            number(
                "Down, silent or starved",
                "Servers that do not serve and that a restart by lifeguard is not the answer for.",
                now(in_state("down", "unresponsive", "starved"), "down, silent or starved"),
                unit="none",
                steps=NONE_IS_BETTER,
                width=4,
                nothing="no exporter",
            )
        )
        .with_panel(
            number(
                "Not judged",
                "Servers about which nothing can be said. If one of them hangs, no alert tells.",
                now(in_state("unknown", "behind_proxy", "no_metrics"), "not judged"),
                unit="none",
                steps=NONE_IS_BETTER,
                width=4,
                nothing="no exporter",
            )
        )
        .with_panel(
            number(
                "Mode",
                "act restarts what is proven stuck; shadow decides the same and restarts nothing.",
                now('max(remediator_mode{mode="act"})', "mode"),
                unit="none",
                steps=[(None, "blue"), (1, "green")],
                width=4,
                nothing="no remediator",
                mappings=[
                    ValueMap(
                        options={
                            "0": ValueMappingResult(text="shadow", color="blue", index=0),
                            "1": ValueMappingResult(text="act", color="green", index=1),
                        }
                    )
                ],
            )
        )
    )
