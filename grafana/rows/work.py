"""Row 4: what work gets done."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from grafana.panels import dashed, lines, query
from grafana.selectors import BACKEND, ENGINE


def work(builder: Dashboard) -> Dashboard:
    """Add the row."""
    return (
        builder.with_row(Row("What work gets done?"))
        .with_panel(
            lines(
                "Steps",
                "Steps a second that gave an output token. None during a long prefill of one "
                "prompt, which is work all the same: never judge by this alone.",
                query(f"max by (backend, engine) (vllm_engine_step_rate{{{BACKEND}}})", ENGINE),
                unit="ops",
                width=8,
            )
        )
        .with_panel(
            lines(
                "Output tokens",
                "Output tokens a second.",
                query(
                    "max by (backend, engine) "
                    f"(rate(vllm_engine_tokens_total{{{BACKEND}}}[$__rate_interval]))",
                    ENGINE,
                ),
                unit="short",
                width=8,
            )
        )
        .with_panel(
            lines(
                "Requests",
                "Requests running, and waiting for the engine (dashed).",
                query(
                    f"max by (backend, engine) (vllm_engine_requests_running{{{BACKEND}}})",
                    f"{ENGINE} running",
                ),
                query(
                    f"max by (backend, engine) (vllm_engine_requests_waiting{{{BACKEND}}})",
                    f"{ENGINE} waiting",
                    "B",
                ),
                unit="short",
                width=8,
            ).override_by_query("B", dashed("orange"))
        )
    )
