"""Row 3: how long it has been silent, against its own waits."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.builders.timeseries import Panel as Timeseries

from grafana.panels import dashed, lines, now, query, ranking
from grafana.selectors import BACKEND, ENGINE, WAIT

QUIET = f"max by (backend, engine) (vllm_engine_quiet_seconds{{{BACKEND}}})"
LONGEST = f"max by (backend, engine) (vllm_engine_longest_quiet_seconds{{{BACKEND}}})"
STARVED = f"max by (backend, engine) (vllm_engine_starved_seconds{{{BACKEND}}})"


def silence(builder: Dashboard) -> Dashboard:
    """Add the row."""
    return (
        builder.with_row(Row("How long has it been silent?"))
        .with_panel(_quiet())
        .with_panel(
            lines(
                "Quiet, in waits of the backend",
                "The same in waits, so that servers with different waits compare: 1 is a "
                "warning, 2 is proof.",
                query(f"{QUIET} / on (backend) group_left () {WAIT}", ENGINE),
                query("vector(1)", "one wait", "B"),
                query("vector(2)", "two waits: stuck", "C"),
                unit="none",
            )
            .decimals(1)
            .override_by_query("B", dashed("yellow"))
            .override_by_query("C", dashed("red"))
        )
        .with_panel(
            lines(
                "Starved, in waits of the backend",
                "Requests ran or waited and no work was done, although the engine may live. 4 "
                "waits alert a person; nothing is restarted for it.",
                query(f"{STARVED} / on (backend) group_left () {WAIT}", ENGINE),
                query("vector(4)", "four waits: starved", "B"),
                unit="none",
            )
            .decimals(1)
            .override_by_query("B", dashed("orange"))
        )
        .with_panel(
            ranking(
                "Longest silence that healed, in waits",
                "The longest silence with work pending that ended by itself. What comes near 2 "
                "would soon have been restarted for nothing: give that backend a longer wait.",
                now(
                    f"{LONGEST} / on (backend) group_left () {WAIT}",
                    ENGINE,
                ),
                unit="none",
                steps=[(None, "green"), (1, "yellow"), (1.5, "red")],
            ).decimals(2)
        )
    )


def _quiet() -> Timeseries:
    return (
        lines(
            "Quiet, in seconds",
            "Watched time in which work was pending and nothing that the engine writes moved, "
            "against one and two waits of its backend. Two waits are proof of a hang.",
            query(QUIET, ENGINE),
            query(WAIT, "{{backend}}: one wait", "B"),
            query(f"2 * {WAIT}", "{{backend}}: two waits, stuck", "C"),
            unit="s",
        )
        .override_by_query("B", dashed("yellow"))
        .override_by_query("C", dashed("red"))
    )
