"""What Alertmanager says of an alert right now. Whatever is not clear is UNKNOWN, never a yes."""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlencode

from fleet.backend import Backend, Kind
from fleet.fetch import Failure, Fetcher
from remediator.case import AlertState, Standing
from remediator.incident import Incident

ALERTS = "/api/v2/alerts"
# Every alert that says that a backend is in trouble has this label.
IN_TROUBLE = 'symptom=~".+"'
TIMEOUT_SECONDS = 5.0


class Alertmanager:
    """Asks one Alertmanager. May be used from several threads."""

    def __init__(self, url: str) -> None:
        # It is no backend, but one bounded exchange is like the other.
        self._peer = Backend("alertmanager", url, Kind.PROXY, wait=0.0, load_time=0.0)

    def standing(self, incident: Incident) -> Standing:
        """How the alert of an incident stands, by its fingerprint, and who else is in trouble.

        Takes at most twice TIMEOUT_SECONDS. ``incident.backend`` must be a backend's name: it goes
        into the query.
        """
        asked = ((f'backend="{incident.backend}"',), (IN_TROUBLE,))
        with closing(Fetcher(self._peer, "remediator")) as fetcher:
            try:
                ours, all_of_them = (_alerts(fetcher, *matchers) for matchers in asked)
            except _UnclearError as error:
                return Standing(AlertState.UNKNOWN, f"Alertmanager: {error}")
        try:
            return replace(standing(ours, incident.fingerprint), in_trouble=in_trouble(all_of_them))
        except (ValueError, LookupError, TypeError, AttributeError):
            return Standing(AlertState.UNKNOWN, f"Alertmanager: {ALERTS} is not a list of alerts")


class _UnclearError(Exception):
    """Alertmanager did not answer, or not as it should; one sentence."""


def _alerts(fetcher: Fetcher, *matchers: str) -> object:
    query = urlencode([("filter", matcher) for matcher in matchers])
    page = fetcher.get(f"{ALERTS}?{query}", timeout=TIMEOUT_SECONDS)
    if isinstance(page, Failure):
        raise _UnclearError(page.why)
    try:
        return json.loads(page.text)
    except (ValueError, RecursionError):
        raise _UnclearError(f"{ALERTS} is not JSON") from None


def in_trouble(alerts: object) -> frozenset[str]:
    """The backends that these alerts are about.

    Raises one of the errors of a value that is not what it ought to be.
    """
    if not isinstance(alerts, list):
        raise TypeError
    return frozenset(str(alert["labels"].get("backend", "")) for alert in alerts) - {""}


def standing(alerts: object, fingerprint: str) -> Standing:
    """How one alert stands in what /api/v2/alerts answered.

    Raises one of the errors of a value that is not what it ought to be.
    """
    if not isinstance(alerts, list):
        raise TypeError
    found = [alert for alert in alerts if alert["fingerprint"] == fingerprint]
    if not found:
        return Standing(AlertState.GONE, "Alertmanager does not have the alert any more")
    (alert,) = found
    began = datetime.fromisoformat(alert["startsAt"])
    if began.tzinfo is None:
        raise ValueError(began)
    return Standing(*_state(alert["status"]), began)


def _state(status: Mapping[str, object]) -> tuple[AlertState, str]:
    """The state; one that is suppressed by something we do not know counts as silenced."""
    match status["state"]:
        case "active":
            return AlertState.ACTIVE, "the alert is active in Alertmanager"
        case "suppressed" if status["inhibitedBy"] and not status["silencedBy"]:
            return AlertState.INHIBITED, "the alert is inhibited by another one in Alertmanager"
        case "suppressed":
            return AlertState.SILENCED, "the alert is silenced in Alertmanager"
        case _:
            return AlertState.UNKNOWN, "Alertmanager has not yet processed the alert"
