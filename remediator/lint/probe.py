"""The probes of a container that is a vLLM server.

What the kubelet does (kubernetes.io, "Configure Liveness, Readiness and Startup Probes"): it
restarts a container whose livenessProbe or startupProbe fails failureThreshold (3) times in a row,
every periodSeconds (10); no answer within timeoutSeconds (1) is a failure. Until a startupProbe has
succeeded no livenessProbe runs. A readinessProbe never restarts.

What vLLM does: /health is answered by the API server's event loop. It says 200 while the engine
is frozen, and is late while the loop is busy; 503 means that the engine process is dead, upon which
the server exits by itself some 3 s later. Reports of healthy servers restarted by it, or taken for
dead within 15 s by the default timeout: gonka-ai/gonka pull 1421, llm-d/llm-d-benchmark pull 1734;
while they loaded: kserve/kserve issue 5062. A TCP connection is accepted by the kernel: it fails
only where nothing listens, which is so while a server loads.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fleet.finding import Finding
from fleet.placed_yaml import Placed
from remediator.lint.command import CHECK, LOOK, REQUEST
from remediator.lint.rule import RULES, Place, Rule
from remediator.lint.scheduled import shown

# As patient as lifeguard: two waits of 90 s, and an answer that may take ten seconds.
PATIENT_SECONDS = 180
PATIENT_TIMEOUT = 10
# What `vllm-exporter check` may take to ask an idle engine, unless --timeout says otherwise.
CHECK_TIMEOUT = 5
NEVER_FAILS = re.compile(r"(?:(?:/\S*/)?(?:ba)?sh -c )?(?:exit 0|(?:/bin/)?true|:)")


@dataclass(frozen=True)
class Probe:
    """A probe as the kubelet reads it, in seconds; what is no number counts as the default."""

    place: Place
    path: str
    command: str
    tcp: bool
    initial: int
    period: int
    timeout: int
    tries: int

    @classmethod
    def of(cls, file: str, placed: Placed) -> "Probe":
        """The probe that stands in a manifest."""
        command = placed.get("exec", "command")
        words = [item.text for item in command.items] if command else []
        return cls(
            place=Place(file, placed.line),
            path=placed.word("httpGet", "path") or ("/" if placed.get("httpGet") else ""),
            command=" ".join(words) or (command.text if command else ""),
            tcp=placed.get("tcpSocket") is not None,
            initial=_number(placed.word("initialDelaySeconds"), 0),
            period=_number(placed.word("periodSeconds"), 10),
            timeout=_number(placed.word("timeoutSeconds"), 1),
            tries=_number(placed.word("failureThreshold"), 3),
        )

    @property
    def seconds(self) -> int:
        """How long it fails until the container is killed."""
        return self.period * self.tries

    @property
    def count(self) -> str:
        """The same, with its numbers."""
        return f"failureThreshold {self.tries} x periodSeconds {self.period} = {self.seconds} s"


def _number(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else default


def findings(file: str, container: Placed, subject: str, load_seconds: float) -> Iterator[Finding]:
    """What is wrong with the probes of a server that loads for ``load_seconds``."""
    placed = container.get("livenessProbe")
    startup = container.get("startupProbe")
    if placed:
        liveness = Probe.of(file, placed)
        judged = tuple(_of_liveness(liveness, subject))
        yield from judged
        if not startup and not judged:
            yield from _of_loading(liveness, subject, load_seconds)
    if startup:
        yield from _of_startup(Probe.of(file, startup), subject, load_seconds)
    readiness = container.get("readinessProbe")
    if readiness:
        yield from _of_readiness(Probe.of(file, readiness), subject)


def _of_liveness(probe: Probe, subject: str) -> Iterator[Finding]:
    asked = REQUEST.search(probe.path) or REQUEST.search(probe.command)
    looked = LOOK.search(probe.command)
    if CHECK.search(probe.command):
        yield from _of_check(probe, subject)
    elif asked:
        yield probe.place.finding(Rule.LIVENESS_REQUEST, _asks(probe, subject, asked[0].strip()))
    elif probe.path or looked:
        yield _of_look(probe, subject, probe.path or (looked[0] if looked else ""))
    elif probe.command and not NEVER_FAILS.fullmatch(probe.command):
        why = (
            f"{subject}a livenessProbe runs `{shown(probe.command)}` and restarts when it fails "
            f"({probe.count})"
        )
        yield probe.place.finding(Rule.LIVENESS_COMMAND, why)


def _asks(probe: Probe, subject: str, path: str) -> str:
    if probe.path:
        return (
            f"{subject}a livenessProbe sends GET {path}, which vLLM answers with 405: the server "
            f"is restarted again and again ({probe.count})"
        )
    return (
        f"{subject}a livenessProbe asks the model ({path}) every {probe.period} s: the request "
        f"queues behind everybody's, and a busy server is restarted ({probe.count}, each with "
        f"{probe.timeout} s to answer)"
    )


def _of_look(probe: Probe, subject: str, path: str) -> Finding:
    patient = probe.seconds >= PATIENT_SECONDS and probe.timeout >= PATIENT_TIMEOUT
    said = f"{probe.count}, each with {probe.timeout} s to answer"
    if patient:
        why = (
            f"{subject}a livenessProbe on {path} restarts after {said}: it will rarely hit a busy "
            "server, and does not see a frozen engine"
        )
        return probe.place.finding(Rule.LIVENESS_PATIENT, why)
    why = (
        f"{subject}a livenessProbe on {path} restarts after {said}: {path} answers late on a busy "
        "server, and 200 on a frozen engine"
    )
    return probe.place.finding(Rule.LIVENESS_HEALTH, why)


def _of_check(probe: Probe, subject: str) -> Iterator[Finding]:
    if "--liveness" not in probe.command:
        why = (
            f"{subject}a livenessProbe runs `vllm-exporter check` without --liveness: its status 2 "
            "says that it cannot be judged, and the kubelet restarts for it"
        )
        yield probe.place.finding(Rule.LIVENESS_CHECK, why)
    elif "--no-ask" not in probe.command and probe.timeout <= CHECK_TIMEOUT:
        why = (
            f"{subject}a livenessProbe runs `vllm-exporter check` with timeoutSeconds "
            f"{probe.timeout}: asking an idle engine may take {CHECK_TIMEOUT} s, and a check that "
            "is cut off counts as a failure"
        )
        yield probe.place.finding(Rule.LIVENESS_CHECK, why)


def _of_loading(probe: Probe, subject: str, load_seconds: float) -> Iterator[Finding]:
    seconds = probe.initial + probe.seconds
    if probe.tcp and seconds < load_seconds:
        why = (
            f"{subject}a livenessProbe on the port restarts {seconds} s after the start "
            f"(initialDelaySeconds {probe.initial} + {probe.count}) if nothing listens yet, and a "
            f"model may load for {load_seconds:g} s"
        )
        fix = RULES[Rule.LIVENESS_LOADING].fix.format(tries=math.ceil(load_seconds / 10))
        yield probe.place.finding(Rule.LIVENESS_LOADING, why, fix)


def _of_startup(probe: Probe, subject: str, load_seconds: float) -> Iterator[Finding]:
    seconds = probe.initial + probe.seconds
    if seconds < load_seconds and not NEVER_FAILS.fullmatch(probe.command):
        why = (
            f"{subject}a startupProbe restarts {seconds} s after the start (initialDelaySeconds "
            f"{probe.initial} + {probe.count}), and a model may load for {load_seconds:g} s"
        )
        tries = math.ceil((load_seconds - probe.initial) / max(1, probe.period))
        fix = RULES[Rule.STARTUP_SHORT].fix.format(period=probe.period, tries=tries)
        yield probe.place.finding(Rule.STARTUP_SHORT, why, fix)


def _of_readiness(probe: Probe, subject: str) -> Iterator[Finding]:
    asked = REQUEST.search(probe.path) or REQUEST.search(probe.command)
    if asked:
        why = (
            f"{subject}a readinessProbe asks the model ({asked[0].strip()}) every {probe.period} s:"
            " it takes a slot, and takes a busy server out of the load balancer"
        )
        yield probe.place.finding(Rule.READINESS_REQUEST, why)
