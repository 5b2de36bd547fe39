"""What is said aloud: one structured line per decision and per step of an attempt, and counts."""

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from remediator.decision import Action, Decision, Reason
from remediator.incident import Attempt, Incident
from remediator.moment import clock

log = logging.getLogger("remediator")


class Received(StrEnum):
    """What became of a notification."""

    ACCEPTED = "accepted"
    MALFORMED = "malformed"
    UNAUTHORISED = "unauthorised"
    TOO_LARGE = "too_large"
    NOT_STORED = "not_stored"


class Journal:
    """Writes lines to the log and counts. May be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decisions: Counter[tuple[Action, Reason]] = Counter()
        self._notifications: Counter[Received] = Counter()
        self._truncated = 0

    def received(self, what: Received, why: str | None = None) -> None:
        """Count a notification; tell one that was not accepted, with one sentence why."""
        with self._lock:
            self._notifications[what] += 1
        if why is not None:
            log.warning("%s", line(notification=what, why=why))

    def truncated(self, alerts: int) -> None:
        """Count and tell alerts that were left out of a notification: nobody will look at them."""
        with self._lock:
            self._truncated += alerts
        why = "max_alerts of the webhook has to be 0: what is left out is never looked at"
        log.warning("%s", line(event="alerts_truncated", alerts=alerts, why=why))

    def decided(self, incident: Incident, decision: Decision) -> None:
        """Tell a decision, unless it says the same as the incident's last one."""
        if incident.was_told(decision):
            return
        with self._lock:
            self._decisions[decision.action, decision.reason] += 1
        log.info(
            "%s",
            line(
                decision=decision.action,
                reason=decision.reason,
                backend=incident.backend,
                incident=incident.id,
                until=decision.until,
                why=decision.why,
            ),
        )

    def came_to(self, attempt: Attempt) -> None:
        """Tell that an attempt has come to another state."""
        log.info(
            "%s",
            line(
                attempt=attempt.id,
                state=attempt.state,
                mode=attempt.mode,
                backend=attempt.backend,
                incident=attempt.incident_id,
                why=attempt.why or None,
            ),
        )

    def decisions(self) -> Mapping[tuple[Action, Reason], int]:
        """How often each decision was told since the program began."""
        with self._lock:
            return dict(self._decisions)

    def truncated_alerts(self) -> int:
        """How many alerts were left out of notifications since the program began."""
        with self._lock:
            return self._truncated

    def notifications(self) -> Mapping[Received, int]:
        """How many notifications came since the program began, by what became of them."""
        with self._lock:
            return dict(self._notifications)


def record_of_people(event: str, backend: str, **fields: object) -> None:
    """Tell what a person or a batch job had done by the API."""
    log.info("%s", line(event=event, backend=backend, **fields))


def line(**fields: object) -> str:
    """The fields as ``key=value``, quoted where a value needs it; those that are None left out."""
    return " ".join(f"{key}={_value(value)}" for key, value in fields.items() if value is not None)


def _value(value: object) -> str:
    if isinstance(value, datetime):
        return clock(value)
    text = str(value)
    if text.isprintable() and text and not any(char in text for char in ' ="\\'):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    plain = (char if char.isprintable() else f"\\u{ord(char):04x}" for char in escaped)
    return f'"{"".join(plain)}"'
