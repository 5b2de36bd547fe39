"""The rules: what each is called, how grave it is, and what to write instead."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fleet.finding import Finding, Severity


class Rule(StrEnum):
    """The closed set of rules; docs/lint.md has a row for each."""

    LIVENESS_HEALTH = "liveness-health"
    LIVENESS_PATIENT = "liveness-patient"
    LIVENESS_REQUEST = "liveness-request"
    LIVENESS_LOADING = "liveness-loading"
    LIVENESS_CHECK = "liveness-check"
    LIVENESS_COMMAND = "liveness-command"
    STARTUP_SHORT = "startup-short"
    READINESS_REQUEST = "readiness-request"
    DEADLINE = "deadline"
    COMPOSE_AUTOHEAL = "compose-autoheal"
    COMPOSE_SWARM = "compose-swarm"
    COMPOSE_UPDATER = "compose-updater"
    COMPOSE_RESTART = "compose-restart"
    COMPOSE_REQUEST = "compose-request"
    UNIT_WATCHDOG = "unit-watchdog"
    UNIT_RUNTIME = "unit-runtime"
    UNIT_REBOOT = "unit-reboot"
    UNIT_HEALTH = "unit-health"
    UNIT_RESTART = "unit-restart"
    SCHEDULED_WATCHDOG = "scheduled-watchdog"
    SCHEDULED_RESTART = "scheduled-restart"
    SCHEDULED_REQUEST = "scheduled-request"
    SCHEDULED_CHECK = "scheduled-check"
    SCHEDULED_PROGRAM = "scheduled-program"


@dataclass(frozen=True)
class About:
    """What holds for every finding of a rule; a finding may have a fix of its own."""

    severity: Severity
    fix: str


_PROBE = (
    "remove the livenessProbe and let the remediator restart, or run `vllm-exporter check "
    "--liveness` in it (docs/check.md)"
)
_RESTARTED = (
    "keep it: it starts what exited, the remediator sees a new start time and cools down from it"
)
_ERROR, _NOTE = Severity.ERROR, Severity.NOTE

RULES: Mapping[Rule, About] = {
    Rule.LIVENESS_HEALTH: About(_ERROR, _PROBE),
    Rule.LIVENESS_PATIENT: About(_NOTE, _PROBE),
    Rule.LIVENESS_REQUEST: About(_ERROR, _PROBE),
    Rule.LIVENESS_LOADING: About(
        _ERROR,
        "add a startupProbe on /health that waits for as long as the model may load: "
        "periodSeconds: 10, failureThreshold: {tries}",
    ),
    Rule.LIVENESS_CHECK: About(
        _ERROR, "write it as docs/check.md has it: `--liveness`, and `timeoutSeconds: 20`"
    ),
    Rule.LIVENESS_COMMAND: About(
        _NOTE, "make sure that the command fails for a dead server only; or " + _PROBE
    ),
    Rule.STARTUP_SHORT: About(
        _ERROR, "with periodSeconds {period} set failureThreshold to {tries} or more"
    ),
    Rule.READINESS_REQUEST: About(_NOTE, "probe /health for readiness: it takes no slot"),
    Rule.DEADLINE: About(_ERROR, "remove activeDeadlineSeconds"),
    Rule.COMPOSE_AUTOHEAL: About(
        _ERROR, "take the server out of it: {how}; the remediator restarts what is proven stuck"
    ),
    Rule.COMPOSE_SWARM: About(
        _ERROR, "write `healthcheck: {disable: true}` here, and let the remediator restart"
    ),
    Rule.COMPOSE_UPDATER: About(
        _ERROR, 'label the server `com.centurylinklabs.watchtower.enable: "false"`'
    ),
    Rule.COMPOSE_RESTART: About(_NOTE, _RESTARTED),
    Rule.COMPOSE_REQUEST: About(_NOTE, "check /health instead: it takes no slot"),
    Rule.UNIT_WATCHDOG: About(_ERROR, "remove WatchdogSec="),
    Rule.UNIT_RUNTIME: About(_ERROR, "remove RuntimeMaxSec="),
    Rule.UNIT_REBOOT: About(_ERROR, "remove it; a machine is restarted by people"),
    Rule.UNIT_HEALTH: About(_ERROR, "write HealthOnFailure=none and let the remediator restart"),
    Rule.UNIT_RESTART: About(_NOTE, _RESTARTED),
    Rule.SCHEDULED_WATCHDOG: About(
        _ERROR, "remove it: the exporter watches without a request, the remediator restarts"
    ),
    Rule.SCHEDULED_RESTART: About(_ERROR, "remove it and let the remediator restart"),
    Rule.SCHEDULED_REQUEST: About(
        _ERROR, "remove it, or ask `vllm-exporter check`, which takes no slot from anybody"
    ),
    Rule.SCHEDULED_CHECK: About(
        _NOTE, "have one of the two: this, or the remediator with its limits and its history"
    ),
    Rule.SCHEDULED_PROGRAM: About(
        _NOTE, "read it: if it restarts the server or asks the model, remove it"
    ),
}


@dataclass(frozen=True)
class Place:
    """Where a finding is."""

    file: str
    line: int

    def finding(self, rule: Rule, why: str, fix: str | None = None) -> Finding:
        """A finding here; ``fix`` replaces the rule's own. No control characters come out again."""
        about = RULES[rule]
        said = "".join(letter if letter.isprintable() else "�" for letter in why)
        return Finding(self.file, self.line, rule, about.severity, said, fix or about.fix)
