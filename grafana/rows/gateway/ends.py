"""Row 3: what became of requests, and of those that were interrupted on their way."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row

from grafana.panels import bars, lines, query
from grafana.selectors import BACKEND


def ends(builder: Dashboard) -> Dashboard:
    """Add the row."""
    return (
        builder.with_row(Row("What became of them?"))
        .with_panel(
            lines(
                "Requests by end",
                "Requests a second that were billed, by how they ended.",
                query(
                    "sum by (end) (rate(gateway_requests_total[$__rate_interval]))",
                    "{{end}}",
                ),
                unit="reqps",
            )
        )
        .with_panel(
            bars(
                "Went on elsewhere",
                "Requests that left a backend, which broke them off, fell silent or was drained. "
                "Clients noticed nothing.",
                query(
                    "sum by (backend) "
                    f"(increase(gateway_resumes_total{{{BACKEND}}}[$__rate_interval])) > 0",
                    "left {{backend}}",
                ),
                unit="none",
            )
        )
        .with_panel(
            bars(
                "Interrupted by reason",
                "Requests that did not end as they should. cut, broken and error are what a client "
                "must not see; gone hung up; refused got a no.",
                query(
                    "sum by (reason) (increase(gateway_interrupted_total[$__rate_interval])) > 0",
                    "{{reason}}",
                ),
                unit="none",
            )
        )
        .with_panel(
            bars(
                "Refused by status",
                "Requests that the gateways themselves answered with an error. 503: nobody could "
                "take it; the others are the client's.",
                query(
                    "sum by (status) (increase(gateway_refused_total[$__rate_interval])) > 0",
                    "{{status}}",
                ),
                unit="none",
            )
        )
    )
