"""What the exporter's benchmark makes of a server's log and of the kernel's accounts."""

import os
from pathlib import Path

import pytest

from benchmarks.exporter.cpu import cpu_seconds, rss_mb
from benchmarks.exporter.looks import Look, lateness, looks, percentile
from benchmarks.exporter.servers import PAGE, address


def test_looks_are_the_lines_that_are_looks() -> None:
    log = ["1000.25 127.0.1.1 filtered\n", "1000.5 127.0.1.2 full\n", "1 a other\n", "broken\n"]
    assert looks(log) == [
        Look(1000.25, "127.0.1.1", "filtered"),
        Look(1000.5, "127.0.1.2", "full"),
    ]


def test_lateness_is_against_each_backends_own_grid() -> None:
    seen = [
        Look(100.0, "a", "full"),
        Look(107.0, "b", "full"),
        Look(115.5, "a", "full"),
        Look(121.9, "b", "full"),
        # One missed, and on time again.
        Look(145.0, "a", "full"),
    ]
    assert lateness(seen, 15.0) == pytest.approx([0.0, 0.5, 0.0, 0.1, 0.0])


def test_a_percentile_is_not_exceeded_by_that_part() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, 0.99) == 100.0
    assert percentile(values, 0.5) == 51.0
    assert percentile([3.0], 0.99) == 3.0


def test_the_kernels_accounts_are_read(tmp_path: Path) -> None:
    assert cpu_seconds(os.getpid()) > 0
    assert rss_mb(os.getpid()) > 1
    folder = tmp_path / "7"
    folder.mkdir()
    ticks = os.sysconf("SC_CLK_TCK")
    (folder / "stat").write_text(f"7 (a (b) c) S {'0 ' * 10}{3 * ticks} {2 * ticks} 0\n")
    (folder / "status").write_text("Name:\tx\nVmRSS:\t    2000 kB\n")
    assert cpu_seconds(7, tmp_path) == 5.0
    assert rss_mb(7, tmp_path) == pytest.approx(2.048)


def test_two_thousand_backends_have_addresses_of_their_own() -> None:
    addresses = {address(number) for number in range(2000)}
    assert len(addresses) == 2000
    assert all(one.startswith("127.0.") for one in addresses)
    assert PAGE.stat().st_size > 45_000
