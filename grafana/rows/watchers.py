"""Row 6: whether lifeguard itself is well."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, Row
from grafana_foundation_sdk.models.common import BigValueTextMode

from grafana.panels import ANY_IS_NEWS, LOW, NONE_IS_GOOD, bars, lines, now, number, query, switch
from grafana.selectors import BACKEND


def watchers(builder: Dashboard) -> Dashboard:
    """Add the row."""
    return (
        builder.with_row(Row("Is lifeguard itself well?"))
        .with_panel(
            switch(
                "Exporter",
                "1 while Prometheus can read every exporter.",
                now('min(up{job="vllm-exporter"})', "exporter"),
                "none",
            )
        )
        .with_panel(
            switch(
                "Remediator",
                "1 while Prometheus can read a remediator.",
                now('max(up{job="vllm-remediator"})', "remediator"),
                "none",
            )
        )
        .with_panel(
            number(
                "Backends without a fresh reading",
                "Configured, and not read within two poll intervals.",
                now(
                    "sum(vllm_exporter_backends) - (count(vllm_backend_up) or vector(0))",
                    "without a reading",
                ),
                unit="none",
                steps=NONE_IS_GOOD,
                width=4,
                nothing="no exporter",
            )
        )
        .with_panel(
            number(
                "Open incidents",
                "Alerts that the remediator was told of and has not seen the end of.",
                now(f"sum(max by (backend) (remediator_incidents_open{{{BACKEND}}}))", "open"),
                unit="none",
                steps=ANY_IS_NEWS,
                width=4,
                nothing="no remediator",
            )
        )
        .with_panel(
            switch(
                "fleet.yml",
                "1 while every exporter has in force what it read last; 0: that has a mistake.",
                now("min(vllm_exporter_config_last_reload_successful)", "in force"),
                "no exporter",
            )
        )
        .with_panel(
            number(
                "Versions",
                "What is running.",
                now("count by (version) (vllm_exporter_build_info)", "exporter {{version}}"),
                unit="none",
                steps=[(None, "text")],
                width=4,
                nothing="none",
            )
            .text_mode(BigValueTextMode.NAME)
            .with_target(
                now("count by (version) (remediator_build_info)", "remediator {{version}}", "B")
            )
        )
        .with_panel(
            lines(
                "Lateness of polls",
                "How late the last poll of any backend began, at worst. Much of it means that "
                "the exporter's machine is overloaded.",
                query("max(vllm_exporter_poll_lateness_seconds)", "worst"),
                unit="s",
                width=6,
                height=LOW,
            )
        )
        .with_panel(
            lines(
                "Duration of a read",
                "How long the server took to show its page: the load on its API server.",
                query(
                    f"max by (backend) (vllm_backend_read_duration_seconds{{{BACKEND}}})",
                    "{{backend}}",
                ),
                unit="s",
                width=6,
                height=LOW,
            )
        )
        .with_panel(
            lines(
                "Reads by result",
                "Reads a second, by what came of them.",
                query(
                    "sum by (result) "
                    f"(rate(vllm_backend_reads_total{{{BACKEND}}}[$__rate_interval])) > 0",
                    "{{result}}",
                ),
                unit="reqps",
                width=6,
                height=LOW,
            )
        )
        .with_panel(
            lines(
                "Short requests",
                "How long the short request to an idle engine took; a hang of an idle server "
                "shows only here.",
                query(
                    f"max by (backend) (vllm_backend_answer_seconds{{{BACKEND}}})", "{{backend}}"
                ),
                unit="s",
                width=6,
                height=LOW,
            )
        )
        .with_panel(
            bars(
                "Answers by result",
                "What became of the short requests. Errors are neither an answer nor silence.",
                query(
                    "sum by (backend, result) "
                    f"(increase(vllm_backend_answers_total{{{BACKEND}}}[$__rate_interval])) > 0",
                    "{{backend}}: {{result}}",
                ),
                unit="none",
                width=8,
                height=LOW,
            )
        )
        .with_panel(
            bars(
                "Failed looks at sources",
                "Looks at sources of discovery of which a part failed and kept its last answer.",
                query(
                    "max by (source) "
                    "(increase(vllm_exporter_discovery_failures_total[$__rate_interval]))",
                    "{{source}}",
                ),
                unit="none",
                width=8,
                height=LOW,
            )
        )
        .with_panel(
            bars(
                "Notifications by result",
                "What Alertmanager sent to the remediator, and what became of it.",
                query(
                    "sum by (result) "
                    "(increase(remediator_notifications_total[$__rate_interval])) > 0",
                    "{{result}}",
                ),
                unit="none",
                width=8,
                height=LOW,
            )
        )
    )
