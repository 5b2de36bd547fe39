"""I/O: what Python and the system say about this process, in the words of every Python exporter."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest


def python_page() -> Callable[[], str]:
    """A reader of the ``python_*`` and ``process_*`` part of the page, start time included."""
    registry = CollectorRegistry()
    GCCollector(registry=registry)
    PlatformCollector(registry=registry)
    ProcessCollector(registry=registry)
    return lambda: generate_latest(registry).decode()


def start_time(proc: str = "/proc") -> float:
    """When this process was started, as wall clock seconds; 0 where /proc does not tell."""
    registry = CollectorRegistry()
    ProcessCollector(proc=proc, registry=registry)
    return registry.get_sample_value("process_start_time_seconds") or 0.0
