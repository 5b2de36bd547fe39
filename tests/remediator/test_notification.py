# ruff: noqa: ANN401 -- fields are changed by name
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remediator.notification import (
    LABEL_CHARACTERS,
    NotificationError,
    Status,
    Symptom,
    clean,
    notification,
)

RECORDINGS = Path(__file__).parent / "recordings"
NOTIFICATIONS = Path(__file__).parents[1] / "fixtures" / "notifications"
STARTS = "2026-03-01T12:00:00.123456789Z"


def one(**changed: Any) -> dict[str, Any]:
    return {
        "status": "firing",
        "labels": {"alertname": "VLLMEngineStuck", "backend": "gpu-a", "remediate": "restart"},
        "annotations": {},
        "startsAt": STARTS,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "",
        "fingerprint": "7bdcfff547bc4d61",
        **changed,
    }


def body(*alerts: Any, **changed: Any) -> bytes:
    root = {
        "version": "4",
        "status": "firing",
        "receiver": "lifeguard",
        "groupLabels": {},
        "commonLabels": {"backend": "gpu-z", "remediate": "restart"},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093",
        "groupKey": "{}:{}",
        "truncatedAlerts": 0,
        "alerts": list(alerts),
        **changed,
    }
    return json.dumps(root).encode()


@pytest.mark.parametrize(("release", "truncated"), [("0.25", 0), ("0.28", 0), ("0.33", 2)], ids=str)
def test_every_supported_release_is_understood(release: str, truncated: int) -> None:
    told = notification((NOTIFICATIONS / f"alertmanager-{release}.json").read_bytes())
    assert [(a.backend, a.remediate) for a in told.alerts] == [
        ("gpu-a", "restart"),
        ("gpu-b", "restart"),
    ]
    assert told.truncated == truncated


def test_what_a_real_alertmanager_sends_while_it_fires() -> None:
    told = notification((RECORDINGS / "alertmanager-0.25-firing.json").read_bytes())
    assert [(a.status, a.backend, a.engine, a.remediate) for a in told.alerts] == [
        (Status.FIRING, "gpu-a", "0", "restart"),
        (Status.FIRING, "gpu-b", "0", "restart"),
    ]
    first = told.alerts[0]
    assert first.fingerprint == "7bdcfff547bc4d61"
    assert first.starts_at == datetime(2026, 11, 30, 4, 16, 41, 123456, UTC)
    assert first.ends_at is None
    assert first.symptom is Symptom.STUCK
    assert told.truncated == 0


def test_what_a_real_alertmanager_sends_when_it_is_resolved() -> None:
    (only,) = notification((RECORDINGS / "alertmanager-0.25-resolved.json").read_bytes()).alerts
    assert only.status is Status.RESOLVED
    assert only.ends_at == datetime(2026, 11, 30, 4, 16, 45, tzinfo=UTC)


def test_fields_that_other_releases_add_or_leave_out_do_not_matter() -> None:
    newer = json.loads(body(one(mutedBy=[], annotations=None)))
    newer["notificationReason"] = "first"
    del newer["truncatedAlerts"], newer["groupKey"]
    assert len(notification(json.dumps(newer).encode()).alerts) == 1


def test_each_alert_stands_for_itself_and_the_root_is_never_used() -> None:
    told = notification(
        body(
            one(),
            one(status="resolved", labels={"backend": "gpu-b"}),
            one(labels={}),
            status="firing",
        )
    )
    assert [(a.status, a.backend, a.remediate) for a in told.alerts] == [
        (Status.FIRING, "gpu-a", "restart"),
        (Status.RESOLVED, "gpu-b", ""),
        (Status.FIRING, "", ""),
    ]


def test_no_other_label_stands_in_for_the_backend() -> None:
    labels = {"instance": "127.0.0.1:9109", "job": "gpu-a", "remediate": "restart"}
    assert notification(body(one(labels=labels))).alerts[0].backend == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [("dead", Symptom.DEAD), ("stuck", Symptom.STUCK), ("DEAD", Symptom.STUCK)],
)
def test_only_the_word_dead_means_dead(value: str, expected: Symptom) -> None:
    labels = {"backend": "gpu-a", "symptom": value}
    assert notification(body(one(labels=labels))).alerts[0].symptom is expected


def test_times_of_other_zones_are_kept_in_utc() -> None:
    told = notification(body(one(startsAt="2026-03-01T14:00:00+02:00"))).alerts[0]
    assert told.starts_at == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert told.starts_at.tzinfo is UTC


def test_alerts_that_were_left_out_are_counted() -> None:
    assert notification(body(one(), truncatedAlerts=3)).truncated == 3


MISTAKES = {
    "no JSON": (b"{", "the body is not JSON: "),
    "no text": (b"\xff\xfe\xff", "the body is not JSON: "),
    "nested too deeply": (b"[" * 100_000, "the body is not JSON: "),
    "a list": (b"[]", "the body: [] is not an object"),
    "another version": (body(version="5"), "version: '5' is not '4'"),
    "no version": (b'{"alerts": []}', "version: None is not '4'"),
    "no alerts": (b'{"version": "4"}', "alerts: None is not a list"),
    "truncated by a word": (body(truncatedAlerts="x"), "truncatedAlerts: 'x' is not a count"),
    "truncated by less than none": (body(truncatedAlerts=-1), "truncatedAlerts: -1 is not a count"),
    "truncated by more than there can be": (
        body(truncatedAlerts=2**64),
        "truncatedAlerts: 18446744073709551616 is not a count",
    ),
    "truncated by a truth": (body(truncatedAlerts=True), "truncatedAlerts: True is not a count"),
    "an alert that is text": (body(one(), "x"), "alerts[1]: 'x' is not an object"),
    "an unknown status": (
        body(one(status="on")),
        "alerts[0].status: 'on' is not 'firing' or 'resolved'",
    ),
    "no status": (body({}), "alerts[0].status: None is not 'firing' or 'resolved'"),
    "a status that is a list": (
        body(one(status=[])),
        "alerts[0].status: [] is not 'firing' or 'resolved'",
    ),
    "no fingerprint": (
        body(one(fingerprint=None)),
        "alerts[0].fingerprint: None is not a fingerprint",
    ),
    "a long fingerprint": (
        body(one(fingerprint="a" * 65)),
        f"alerts[0].fingerprint: '{'a' * 65}' is not a fingerprint",
    ),
    "a start that is no time": (
        body(one(), one(startsAt="x")),
        "alerts[1].startsAt: 'x' is not a time",
    ),
    "a start without a zone": (
        body(one(startsAt="2026-03-01T12:00:00")),
        "alerts[0].startsAt: '2026-03-01T12:00:00' is not a time",
    ),
    "a start that is no day": (
        body(one(startsAt="2026-02-30T12:00:00Z")),
        "alerts[0].startsAt: '2026-02-30T12:00:00Z' is not a time",
    ),
    "a start after the end of time": (
        body(one(startsAt="9999-12-31T23:59:59-12:00")),
        "alerts[0].startsAt: '9999-12-31T23:59:59-12:00' is not a time",
    ),
    "no start": (
        body(one(startsAt="0001-01-01T00:00:00Z")),
        "alerts[0].startsAt: is not set",
    ),
    "a start that is null": (body(one(startsAt=None)), "alerts[0].startsAt: is not set"),
    "an end that is a number": (body(one(endsAt=7)), "alerts[0].endsAt: 7 is not a time"),
    "an end that is a list": (body(one(endsAt=[])), "alerts[0].endsAt: [] is not a time"),
    "no labels": (body(one(labels=None)), "alerts[0].labels: None is not an object"),
    "a label that is a number": (
        body(one(labels={"backend": 7})),
        "alerts[0].labels.backend: 7 is not a string",
    ),
}


@pytest.mark.parametrize(("sent", "sentence"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_named_with_its_place_and_value(sent: bytes, sentence: str) -> None:
    with pytest.raises(NotificationError) as raised:
        notification(sent)
    assert str(raised.value).startswith(sentence)
    assert "\n" not in str(raised.value)


def test_a_mistake_is_never_shown_at_length() -> None:
    with pytest.raises(NotificationError) as raised:
        notification(body(one(startsAt="x" * 10_000)))
    assert len(str(raised.value)) < 200


HOSTILE = ["../b", "a; rm -rf /", "$(x)", "x" * 10_000, "a\nb", "a\x00b", "a\x1b[31m", "\ud800"]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_label_is_cut_and_cleaned(value: str) -> None:
    told = notification(body(one(labels={"backend": value}))).alerts[0]
    assert len(told.backend) <= LABEL_CHARACTERS
    assert told.backend.isprintable()
    told.backend.encode()


@given(st.text())
def test_text_that_can_be_printed_is_left_as_it_is(text: str) -> None:
    cleaned = clean(text)
    if text.isprintable() and len(text) <= LABEL_CHARACTERS:
        assert cleaned == text
    assert cleaned.isprintable()
    assert len(cleaned) <= LABEL_CHARACTERS
