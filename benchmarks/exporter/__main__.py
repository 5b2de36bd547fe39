"""``make bench-exporter``: prints one table and, last, the RESULT line."""

import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.exporter import measure, real
from benchmarks.exporter.servers import Servers, page_bytes
from demo.child import free_ports, sigterm_as_ctrl_c
from demo.parts import PartMissingError

BACKENDS = int(os.environ.get("BACKENDS", "2000"))
TARGETS = int(os.environ.get("TARGETS", "400"))
SECONDS = float(os.environ.get("SECONDS", "90"))
WITH_VLLM = os.environ.get("VLLM", "1") != "0"


def main() -> int:
    """Measure and print. Returns 0, or 2 where a part is missing."""
    with tempfile.TemporaryDirectory(prefix="bench-exporter-") as name:
        folder = Path(name)
        try:
            servers = Servers(folder, free_ports(1)[0])
        except PartMissingError as error:
            print(error, file=sys.stderr)
            return 2
        try:
            ours, of_scrape = measure.exporter(folder, servers, BACKENDS, SECONDS)
            theirs = measure.prometheus(folder, servers, TARGETS, SECONDS)
        finally:
            servers.stop()
        asked = real.looks(folder) if WITH_VLLM else {}
    table = Table(title=f"Looking at {page_bytes() / 1000:.0f} KB pages every 15 s")
    for column in ("", "backends", "page", "looks", "CPU a look", "of one core", "late p99", "RSS"):
        table.add_column(column, justify="left" if column in ("", "page") else "right")
    for who, many, cost in (("vllm-exporter", BACKENDS, ours), ("Prometheus", TARGETS, theirs)):
        table.add_row(
            who,
            str(many),
            ", ".join(sorted(cost.forms)),
            str(cost.looks),
            f"{cost.cpu_per_look * 1e6:.0f} µs",
            f"{cost.core_share:.1%}",
            f"{cost.late_p99:.3f} s",
            f"{cost.rss:.0f} MB",
        )
    console = Console(width=110)
    console.print(table)
    scraped = f"A scrape of vllm-exporter's own page, {BACKENDS} backends on it, takes it"
    console.print(f"{scraped} {of_scrape:.2f} s of CPU.")
    if asked:
        console.print(_of_vllm(asked))
    print(_result(ours, theirs, asked))
    return 0


def _of_vllm(asked: dict[str, real.Asked]) -> Table:
    table = Table(title="CPU of a real, idle vLLM for one request")
    for column in ("", "API server", "engine"):
        table.add_column(column, justify="right")
    for name, cost in asked.items():
        table.add_row(name, f"{cost.api * 1e3:.1f} ms", f"{cost.engine * 1e3:.1f} ms")
    return table


def _result(ours: measure.Cost, theirs: measure.Cost, asked: dict[str, real.Asked]) -> str:
    of_vllm = {"vllm_cpu_ratio_filtered_to_full": "not_measured"}
    if asked:
        filtered, full, chat = (asked[name] for name in ("filtered", "full", "chat"))
        of_vllm = {
            "vllm_cpu_ratio_filtered_to_full": f"{filtered.api / full.api:.3f}",
            "vllm_cpu_ratio_filtered_to_chat": (
                f"{(filtered.api + filtered.engine) / (chat.api + chat.engine):.3f}"
            ),
        }
    result = {
        "cpu_us_per_look": f"{ours.cpu_per_look * 1e6:.0f}",
        "prometheus_cpu_us_per_scrape": f"{theirs.cpu_per_look * 1e6:.0f}",
        "ratio": f"{ours.cpu_per_look / theirs.cpu_per_look:.3f}",
        "core_share": f"{ours.core_share:.3f}",
        "late_p99_s": f"{ours.late_p99:.3f}",
        "rss_mb": f"{ours.rss:.0f}",
        **of_vllm,
    }
    return "RESULT " + " ".join(f"{name}={value}" for name, value in result.items())


if __name__ == "__main__":
    sigterm_as_ctrl_c()
    sys.exit(main())
