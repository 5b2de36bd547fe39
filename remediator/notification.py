"""What Alertmanager posts to a webhook (JSON version "4"), parsed once into frozen values.

Each alert stands for itself: the status and the labels of the root describe a group, and a group
of firing and resolved alerts is called firing. Labels are written by anybody who can raise an
alert, so they are cut and cleaned here, before a log or a database sees them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

VERSION = "4"
REMEDIATE = "restart"
LABEL_CHARACTERS = 128
SHOWN_CHARACTERS = 80
# Alertmanager's own type for it is an unsigned integer of 64 bits.
MOST_TRUNCATED = 2**64
RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
FINGERPRINT = re.compile(r"[!-~]{1,64}", re.ASCII)


class NotificationError(Exception):
    """A body is not a notification; the text is one sentence that names place and value."""


class Status(StrEnum):
    """Whether an alert holds or is over."""

    FIRING = "firing"
    RESOLVED = "resolved"


class Symptom(StrEnum):
    """What an alert says is wrong, by its label ``symptom``; any other value is STUCK.

    STUCK wants the stricter proof: a server that refuses connections is then left alone.
    """

    STUCK = "stuck"
    DEAD = "dead"


@dataclass(frozen=True)
class Alert:
    """One alert. Texts are printable and at most LABEL_CHARACTERS long, times are in UTC.

    ``fingerprint`` and ``starts_at`` together name one episode of the alert. ``ends_at`` is None
    while no end is known, ``engine`` where the alert has no such label; other labels that are
    missing are empty.
    """

    status: Status
    fingerprint: str
    starts_at: datetime
    ends_at: datetime | None
    alertname: str
    backend: str
    engine: str | None
    remediate: str
    symptom: Symptom


@dataclass(frozen=True)
class Notification:
    """One POST of Alertmanager; ``truncated`` alerts of the group were left out of it."""

    alerts: tuple[Alert, ...]
    truncated: int


def notification(body: bytes) -> Notification:
    """Parse the body of a POST. Raises NotificationError."""
    try:
        root = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotificationError(f"the body is not JSON: {clean(str(error))}") from None
    if not isinstance(root, Mapping):
        raise NotificationError(f"the body: {_shown(root)} is not an object")
    if root.get("version") != VERSION:
        raise NotificationError(f"version: {_shown(root.get('version'))} is not '{VERSION}'")
    alerts = root.get("alerts")
    if not isinstance(alerts, list):
        raise NotificationError(f"alerts: {_shown(alerts)} is not a list")
    truncated = root.get("truncatedAlerts", 0)
    if type(truncated) is not int or not 0 <= truncated < MOST_TRUNCATED:
        raise NotificationError(f"truncatedAlerts: {_shown(truncated)} is not a count")
    return Notification(
        tuple(_alert(alert, f"alerts[{i}]") for i, alert in enumerate(alerts)), truncated
    )


def clean(text: str, limit: int = LABEL_CHARACTERS) -> str:
    """The text with what cannot be printed replaced, and cut (with ``…``) to ``limit``."""
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _alert(alert: object, place: str) -> Alert:
    if not isinstance(alert, Mapping):
        raise NotificationError(f"{place}: {_shown(alert)} is not an object")
    try:
        status = Status(alert.get("status", ""))
    except ValueError:
        raise NotificationError(
            f"{place}.status: {_shown(alert.get('status'))} is not 'firing' or 'resolved'"
        ) from None
    fingerprint = alert.get("fingerprint")
    if not isinstance(fingerprint, str) or not FINGERPRINT.fullmatch(fingerprint):
        raise NotificationError(f"{place}.fingerprint: {_shown(fingerprint)} is not a fingerprint")
    starts_at = _time(alert.get("startsAt"), f"{place}.startsAt")
    if starts_at is None:
        raise NotificationError(f"{place}.startsAt: is not set")
    labels = _labels(alert.get("labels"), f"{place}.labels")
    return Alert(
        status=status,
        fingerprint=fingerprint,
        starts_at=starts_at,
        ends_at=_time(alert.get("endsAt"), f"{place}.endsAt"),
        alertname=labels.get("alertname", ""),
        backend=labels.get("backend", ""),
        engine=labels.get("engine"),
        remediate=labels.get("remediate", ""),
        symptom=Symptom.DEAD if labels.get("symptom") == Symptom.DEAD else Symptom.STUCK,
    )


def _labels(labels: object, place: str) -> dict[str, str]:
    if not isinstance(labels, Mapping):
        raise NotificationError(f"{place}: {_shown(labels)} is not an object")
    for name, value in labels.items():
        if not isinstance(value, str):
            raise NotificationError(f"{place}.{clean(name)}: {_shown(value)} is not a string")
    return {name: clean(value) for name, value in labels.items()}


def _time(text: object, place: str) -> datetime | None:
    """The time in UTC; None for what Go writes when a time is not set: the year 1."""
    if text is None:
        return None
    if not isinstance(text, str) or not RFC3339.fullmatch(text):
        raise NotificationError(f"{place}: {_shown(text)} is not a time")
    try:
        time = datetime.fromisoformat(text.upper())
        return None if time.year == 1 else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise NotificationError(f"{place}: {_shown(text)} is not a time") from None


def _shown(value: object) -> str:
    return clean(repr(value), SHOWN_CHARACTERS)
