"""CPU time and memory of a running process, by the kernel's own accounting."""

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int, proc: Path = Path("/proc")) -> float:
    """Seconds of CPU, user and system, that a process has used with all its threads."""
    # The name in brackets may hold blanks and brackets itself.
    fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mb(pid: int, proc: Path = Path("/proc")) -> float:
    """Resident memory of a process in megabytes."""
    for line in (proc / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    return 0.0
