"""The rules: what each is called, how grave it is, and what to write instead."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fleet.finding import Finding, Severity


class Rule(StrEnum):
    """The closed set of rules; docs/doctor.md has a row for each."""

    FLEET_WINDOW = "fleet-window"
    FLEET_VALUE = "fleet-value"
    FLEET_SEVERAL = "fleet-several"
    GRACE_GATEWAY = "grace-gateway"
    GRACE_VLLM = "grace-vllm"
    PRESTOP_UNKNOWN = "prestop-unknown"
    SHUTDOWN_TIMEOUT = "shutdown-timeout"
    SHUTDOWN_UNKNOWN = "shutdown-unknown"
    STOP_SIGNAL = "stop-signal"
    SHELL_SIGNAL = "shell-signal"
    KILL_MODE = "kill-mode"
    LIVENESS_READY = "liveness-ready"
    READINESS_MISSING = "readiness-missing"
    REPLICAS_GATEWAY = "replicas-gateway"
    REPLICAS_VLLM = "replicas-vllm"
    PDB_MISSING = "pdb-missing"
    PDB_BLOCKS = "pdb-blocks"
    PDB_LOOSE = "pdb-loose"
    ROLLOUT_ALL = "rollout-all"
    ROLLOUT_HALF = "rollout-half"
    IDLE_TIMEOUT = "idle-timeout"
    IDLE_WHOLE = "idle-whole"
    IDLE_REUSE = "idle-reuse"
    PROXY_SHUTDOWN = "proxy-shutdown"
    PROXY_UNLIMITED = "proxy-unlimited"
    RETRY_POST = "retry-post"
    MAX_FAILS = "max-fails"
    BUFFERING = "buffering"
    BUFFERING_DEFAULT = "buffering-default"
    HTTP_VERSION = "http-version"
    HTTP_CLOSE = "http-close"
    CLIENT_ABORT = "client-abort"
    ABORT_ON_CLOSE = "abort-on-close"
    GZIP_EVENTS = "gzip-events"
    CHECK_READY = "check-ready"
    CHECK_SLOW = "check-slow"
    CHECK_CUTS = "check-cuts"
    DEREGISTRATION = "deregistration"
    INCLUDE_MISSING = "include-missing"
    TARGET_UNKNOWN = "target-unknown"


@dataclass(frozen=True)
class About:
    """What holds for every finding of a rule; a finding may have a fix of its own."""

    severity: Severity
    fix: str


_ERROR, _NOTE = Severity.ERROR, Severity.NOTE

RULES: Mapping[Rule, About] = {
    Rule.FLEET_WINDOW: About(_ERROR, "window: {need}"),
    Rule.FLEET_VALUE: About(_ERROR, "write a duration such as 90s, 1m30s or 2h"),
    Rule.FLEET_SEVERAL: About(_NOTE, "give the one that belongs to these files"),
    Rule.GRACE_GATEWAY: About(_ERROR, "give it the time"),
    Rule.GRACE_VLLM: About(_ERROR, "give it the time"),
    Rule.PRESTOP_UNKNOWN: About(
        _NOTE, "add what it takes at most to terminationGracePeriodSeconds, or write `sleep`"
    ),
    Rule.SHUTDOWN_TIMEOUT: About(_ERROR, "--shutdown-timeout 30"),
    Rule.SHUTDOWN_UNKNOWN: About(
        _NOTE, "make sure that --shutdown-timeout is set, to less than the time it has to end in"
    ),
    Rule.STOP_SIGNAL: About(_ERROR, "{setting}SIGTERM"),
    Rule.SHELL_SIGNAL: About(_ERROR, "write `exec` before the program in the shell's script"),
    Rule.KILL_MODE: About(_ERROR, "KillMode=mixed"),
    Rule.LIVENESS_READY: About(_ERROR, "livenessProbe: {httpGet: {path: /-/healthy, port: …}}"),
    Rule.READINESS_MISSING: About(_ERROR, "readinessProbe: {httpGet: {path: /-/ready, port: …}}"),
    Rule.REPLICAS_GATEWAY: About(_ERROR, "replicas: 2"),
    Rule.REPLICAS_VLLM: About(_NOTE, "replicas: 2"),
    Rule.PDB_MISSING: About(
        _ERROR, "add a PodDisruptionBudget for these labels with maxUnavailable: 1"
    ),
    Rule.PDB_BLOCKS: About(_ERROR, "maxUnavailable: 1"),
    Rule.PDB_LOOSE: About(_ERROR, "maxUnavailable: 1"),
    Rule.ROLLOUT_ALL: About(
        _ERROR, "strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}"
    ),
    Rule.ROLLOUT_HALF: About(_NOTE, "maxUnavailable: 0, and maxSurge: 1"),
    Rule.IDLE_TIMEOUT: About(_ERROR, "give it more time than keep_alive"),
    Rule.IDLE_WHOLE: About(_NOTE, "give it more time than first_byte_after"),
    Rule.IDLE_REUSE: About(_ERROR, "keep idle connections for a shorter time than the gateway"),
    Rule.PROXY_SHUTDOWN: About(_ERROR, "give it the window"),
    Rule.PROXY_UNLIMITED: About(_NOTE, "keep it, or bound it by more than the window"),
    Rule.RETRY_POST: About(_ERROR, "take it out"),
    Rule.MAX_FAILS: About(_ERROR, "max_fails=0"),
    Rule.BUFFERING: About(_ERROR, "proxy_buffering off;"),
    Rule.BUFFERING_DEFAULT: About(_NOTE, "proxy_buffering off;"),
    Rule.HTTP_VERSION: About(_ERROR, "proxy_http_version 1.1;"),
    Rule.HTTP_CLOSE: About(_NOTE, 'proxy_set_header Connection "";'),
    Rule.CLIENT_ABORT: About(_ERROR, "proxy_ignore_client_abort off;"),
    Rule.ABORT_ON_CLOSE: About(_NOTE, "option abortonclose"),
    Rule.GZIP_EVENTS: About(_NOTE, "take text/event-stream out of the types"),
    Rule.CHECK_READY: About(_ERROR, "option httpchk GET /-/ready"),
    Rule.CHECK_SLOW: About(_ERROR, "default-server check inter 1s fall 2"),
    Rule.CHECK_CUTS: About(_ERROR, "remove on-marked-down shutdown-sessions"),
    Rule.DEREGISTRATION: About(_ERROR, "give it the window"),
    Rule.INCLUDE_MISSING: About(_NOTE, "give the folder in which it is, too"),
    Rule.TARGET_UNKNOWN: About(
        _NOTE, "give the files in which the gateway is deployed, too, or name it vllm-gateway here"
    ),
}


@dataclass(frozen=True)
class Place:
    """Where a finding is."""

    file: str
    line: int

    def finding(
        self, rule: Rule, why: str, *, have: str = "", need: str = "", fix: str | None = None
    ) -> Finding:
        """A finding here; ``fix`` replaces the rule's own. No control characters come out again.

        ``have`` is what is written, ``need`` what it has to be.
        """
        about = RULES[rule]
        fix = fix if fix is not None else about.fix
        texts = (_printable(text) for text in (why, fix, have, need))
        why, fix, have, need = texts
        return Finding(self.file, self.line, rule, about.severity, why, fix, have, need)


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "�" for letter in text)
