"""Row 4: what the gateway adds to a request, and whether what it delivers is written down."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.builders.prometheus import Dataquery

from grafana.panels import lines, query


def cost(builder: Dashboard) -> Dashboard:
    """Add the row."""
    return (
        builder.with_row(Row("What does it cost, and is it billed?"))
        .with_panel(
            lines(
                "Added before a backend is asked",
                "From a request to the moment at which it is sent to a backend: written down, "
                "and a backend chosen.",
                *_quantiles("gateway_overhead_seconds"),
                unit="s",
                width=8,
            )
        )
        .with_panel(
            lines(
                "To the first byte",
                "From a request to the first byte of its stream; nearly all of it is the server's.",
                *_quantiles("gateway_first_byte_seconds"),
                unit="s",
                width=8,
            )
        )
        .with_panel(
            lines(
                "To the end",
                "From a request to the end of its answer.",
                *_quantiles("gateway_request_duration_seconds"),
                unit="s",
                width=8,
            )
        )
        .with_panel(
            lines(
                "Tokens billed",
                "Tokens a second that are charged; counted when their request ends.",
                query(
                    "sum by (kind) (rate(gateway_tokens_total[$__rate_interval]))",
                    "{{kind}}",
                ),
                unit="none",
            )
        )
        .with_panel(
            lines(
                "Ledger lag",
                "How far each gateway's ledger is behind what it delivered.",
                query("max by (instance) (gateway_ledger_lag_seconds)", "{{instance}}"),
                unit="s",
            )
        )
    )


def _quantiles(histogram: str) -> list[Dataquery]:
    return [
        query(
            f"histogram_quantile({share}, "
            f"sum by (le) (rate({histogram}_bucket[$__rate_interval])))",
            word,
            ref,
        )
        for share, word, ref in (("0.5", "half", "A"), ("0.99", "99 of 100", "B"))
    ]
