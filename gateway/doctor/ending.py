"""How a program ends: the time from its end's beginning to SIGKILL, and what it needs of it.

- Kubernetes (kubernetes.io, "Pod Lifecycle", termination of pods; kubernetes/kubernetes pull
  74160): the grace period (30 s) begins with the preStop hook, which counts inside it; SIGTERM
  comes when the hook has returned, SIGKILL when the grace period is over.
- Docker, Compose and Podman (docs.docker.com, "docker container stop"; podman-stop(1)): SIGTERM,
  and SIGKILL 10 s later unless told otherwise.
- systemd (systemd.kill(5), systemd-system.conf(5)): SIGTERM, and SIGKILL after TimeoutStopSec (90 s
  by default).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fleet.finding import Finding
from gateway.doctor.ours import Absent, Program, Shutdown
from gateway.doctor.rule import Place, Rule
from gateway.doctor.times import Times

DOCKER_SECONDS = 10.0
KUBERNETES_SECONDS = 30.0
SYSTEMD_SECONDS = 90.0
# From the last stream to the end of the process: vLLM took 5 s (measured on 0.32).
EXIT_SECONDS = 10.0


@dataclass(frozen=True)
class Ending:
    """What a file says about the end of a program; ``setting`` is how its time is spelt there.

    ``grace`` in seconds, None for as long as it takes; ``before`` is what passes of it until
    SIGTERM; ``unit`` is put behind a number in the setting.
    """

    place: Place
    subject: str
    setting: str
    unit: str
    grace: float | None
    before: float = 0.0
    default: bool = False

    def findings(
        self, program: Program, shutdown: Shutdown, place: Place, times: Times
    ) -> Iterator[Finding]:
        """Whether the time is enough; ``place`` is that of its command."""
        if program is Program.GATEWAY:
            yield from self._of_gateway(times)
        elif isinstance(shutdown.seconds, float) and shutdown.seconds > 0:
            yield from self._of_vllm(shutdown.seconds)
        elif shutdown.seconds is Absent.NOT_SEEN:
            why = (
                f"{self.subject}--shutdown-timeout is not seen here: without it vLLM cuts every "
                "open stream at SIGTERM"
            )
            yield place.finding(Rule.SHUTDOWN_UNKNOWN, why)
        else:
            have = "0 s" if isinstance(shutdown.seconds, float) else "not set (0 s)"
            why = (
                f"{self.subject}--shutdown-timeout is {have}, has to be more than 0 s: vLLM cuts "
                "every open stream at SIGTERM"
            )
            fix = f"--shutdown-timeout {self._room():g}"
            yield place.finding(
                Rule.SHUTDOWN_TIMEOUT, why, have=have, need="more than 0 s", fix=fix
            )

    def _room(self) -> float:
        """What a server could take for its streams of the time that it has."""
        left = (self.grace or math.inf) - self.before - EXIT_SECONDS
        return max(1.0, float(math.floor(min(left, 30.0)))) if left > 1 else 30.0

    def _of_gateway(self, times: Times) -> Iterator[Finding]:
        need = self.before + times.window
        if self.grace is None or self.grace >= need:
            return
        why = (
            f"{self._has()}, has to be at least {need:g} s: {self._before()}{times.sum}; SIGKILL "
            "cuts what is still in flight"
        )
        yield self._finding(Rule.GRACE_GATEWAY, why, f"at least {need:g} s", need)

    def _of_vllm(self, shutdown: float) -> Iterator[Finding]:
        need = self.before + shutdown
        if self.grace is None or self.grace > need:
            return
        why = (
            f"{self._has()}, has to be more than {need:g} s: {self._before()}--shutdown-timeout "
            f"{shutdown:g} s; SIGKILL cuts the streams that may still finish"
        )
        yield self._finding(Rule.GRACE_VLLM, why, f"more than {need:g} s", need + EXIT_SECONDS)

    def _finding(self, rule: Rule, why: str, need: str, write: float) -> Finding:
        fix = f"{self.setting}{math.ceil(write)}{self.unit}"
        return self.place.finding(rule, why, have=f"{self.grace:g} s", need=need, fix=fix)

    def _has(self) -> str:
        default = " by default" if self.default else ""
        return f"{self.subject}{self.setting.rstrip(':= ')} is {self.grace:g} s{default}"

    def _before(self) -> str:
        return f"preStop {self.before:g} s + " if self.before else ""
