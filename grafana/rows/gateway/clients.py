"""Row 1: whether clients are served, at a glance."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana.panels import ANY_IS_NEWS, NONE_IS_BETTER, NONE_IS_GOOD, now, number, switch


def clients(builder: Dashboard) -> Dashboard:
    """Add the row."""
    return (
        builder.with_row(Row("Are clients served?"))
        .with_panel(
            switch(
                "Gateways",
                "1 while Prometheus can read every gateway.",
                now('min(up{job="vllm-gateway"})', "gateways"),
                "none",
            )
        )
        .with_panel(
            number(
                "In flight",
                "Requests that have no end yet, at all gateways.",
                now("sum(gateway_in_flight)", "in flight"),
                unit="none",
                steps=ANY_IS_NEWS,
                width=4,
                nothing="no gateway",
            )
        )
        .with_panel(
            number(
                "Nobody could take",
                "Requests answered with 503 in the last five minutes.",
                now('sum(increase(gateway_refused_total{status="503"}[5m]))', "refused"),
                unit="none",
                steps=NONE_IS_GOOD,
                width=4,
                nothing="no gateway",
            ).decimals(0)
        )
        .with_panel(
            number(
                "Broken off",
                "Answers that did not come to their end in the last quarter of an hour, and whose "
                "clients had not hung up.",
                now(
                    'sum(increase(gateway_interrupted_total{reason=~"broken|cut|error"}[15m]))',
                    "broken off",
                ),
                unit="none",
                steps=NONE_IS_BETTER,
                width=4,
                nothing="no gateway",
            ).decimals(0)
        )
        .with_panel(
            number(
                "Ledger lag",
                "How far the ledger is behind what was delivered, at the worst gateway. Usual is a "
                "tenth of a second.",
                now("max(gateway_ledger_lag_seconds)", "worst"),
                unit="s",
                steps=[(None, "green"), (1, "orange"), (10, "red")],
                width=4,
                nothing="no gateway",
            )
        )
        .with_panel(
            number(
                "Versions",
                "What is running.",
                now("count by (version) (gateway_build_info)", "gateway {{version}}"),
                unit="none",
                steps=[(None, "text")],
                width=4,
                nothing="none",
            ).text_mode(BigValueTextMode.NAME)
        )
    )
