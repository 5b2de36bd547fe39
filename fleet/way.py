"""The ways in which a backend can be restarted, as fleet.yml names them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Command:
    """A program and its arguments, run without a shell."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Systemd:
    """A unit of the system's systemd, or of the user's whose processes we are."""

    unit: str
    user: bool = False


@dataclass(frozen=True)
class Docker:
    """A container of an engine that speaks Docker's API.

    ``grace``: seconds from SIGTERM to SIGKILL.
    """

    container: str
    host: str
    grace: float


@dataclass(frozen=True)
class Kubernetes:
    """Pods that are deleted, or a workload that is rolled out anew; exactly one of three is set.

    ``selector`` is a label selector that has to match one pod. ``workload`` is KIND/NAME. ``grace``
    is in seconds, None for the pod's own. Without a ``kubeconfig`` we run inside the cluster.
    """

    namespace: str
    pod: str | None = None
    selector: str | None = None
    workload: str | None = None
    grace: float | None = None
    kubeconfig: Path | None = None
    context: str | None = None


Way = Command | Systemd | Docker | Kubernetes
