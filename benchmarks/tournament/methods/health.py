"""By what the API process says of itself."""

from benchmarks.tournament.seen import Seen
from fleet.fetch import Trouble

EVERY, TIMEOUT, FAILURES = 10.0, 5.0, 3


class HealthProbe:
    """The liveness probe that deployments of vLLM have.

    GET /health with Kubernetes' defaults, every 10 s and three failures in a row
    (https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/),
    as in https://docs.vllm.ai/en/stable/deployment/k8s.html and
    https://aws.github.io/deep-learning-containers/vllm/deployment/eks/. The default timeout is
    1 s; it gets 5 s here. A process that is loading is the startup probe's business, so a refused
    connection is no failure.
    """

    name = "/health, 3 times in 30 s"
    firing = False

    def __init__(self) -> None:
        self.due = EVERY
        self._failures = 0

    def look(self, server: Seen, now: float) -> bool:
        """One probe."""
        self.due = now + EVERY
        failure = server.health(now, TIMEOUT)
        failed = failure is not None and failure.kind is not Trouble.REFUSED
        self._failures = self._failures + 1 if failed else 0
        return self._failures >= FAILURES

    def restarted(self, serves_at: float) -> None:
        """Start counting afresh."""
        self._failures, self.due = 0, serves_at + EVERY

    def told_a_person(self) -> bool:
        """Never."""
        return False
