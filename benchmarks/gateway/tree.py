"""CPU and memory of a process and all its descendants."""

from dataclasses import dataclass
from pathlib import Path

from benchmarks.exporter.cpu import cpu_seconds, rss_mb

PROC = Path("/proc")


@dataclass(frozen=True)
class Use:
    """Seconds of CPU so far, user and system; megabytes of resident memory now."""

    cpu: float
    rss: float


def members(root: int, proc: Path = PROC) -> set[int]:
    """The process and its descendants, as far as they live."""
    parents = {}
    for folder in proc.iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            parents[int(folder.name)] = int(fields[1])
    found = {root} & parents.keys()
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def use(root: int, proc: Path = PROC) -> Use:
    """What the tree has used so far. The tree must not change while it is measured."""
    pids = members(root, proc)
    return Use(sum(cpu_seconds(pid, proc) for pid in pids), sum(rss_mb(pid, proc) for pid in pids))
