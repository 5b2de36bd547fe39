"""Ten thousand bodies that no Alertmanager sends: no crash, no restart, a database that answers.

They are mutations of what real ones send, drawn with a fixed seed, so that a failure comes again.
"""

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from fleet.family import registry
from fleet.listen import Listen
from remediator.collector import RemediatorCollector
from remediator.desk import Desk
from remediator.proof import Request, Saw, Sight
from remediator.serve import Server
from remediator.webhook import MOST_BYTES, create_app
from tests.remediator import making
from tests.remediator.making import backend, settings
from tests.remediator.stage import Stage

FIXTURES = Path(__file__).parents[1] / "fixtures" / "notifications"
BODIES = [file.read_bytes() for file in sorted(FIXTURES.glob("*.json"))]
MANY = 10_000
OVER_SOCKETS = 300
BATCH = 500
TOKEN = {"Authorization": "Bearer secret"}

TIMES = [
    "0000-00-00T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "0002-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999999Z",
    "9999-12-31T23:59:59-14:00",
    "2026-02-30T00:00:00Z",
    "2026-11-30T24:00:00Z",
    "2026-11-30T04:16:60Z",
    "2026-11-30 04:16:41",
    "٢٠٢٦-11-30T04:16:41Z",
]
ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**63,
    2**64,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "\ud800",
    "\x00",
    "x" * 5000,
    "'; DROP TABLE incidents; --",
    "../../etc/passwd",
    "$(reboot)",
    [],
    {},
    [[]],
    {"": {}},
    *TIMES,
]


def places(tree: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 -- JSON
    """Every container and key in a JSON tree."""
    keys = tree.keys() if isinstance(tree, dict) else range(len(tree))
    for key in list(keys):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from places(tree[key])


def flipped(body: bytes, drawn: random.Random) -> bytes:
    found = bytearray(body)
    for _ in range(drawn.randint(1, 8)):
        found[drawn.randrange(len(found))] = drawn.randrange(256)
    return bytes(found)


def cut(body: bytes, drawn: random.Random) -> bytes:
    a, b = sorted(drawn.randrange(len(body)) for _ in range(2))
    return drawn.choice([body[:a], body[a:], body[:a] + body[b:], body[:b] + body[a:]])


def swapped(body: bytes, drawn: random.Random) -> bytes:
    tree = json.loads(body)
    for _ in range(drawn.randint(1, 3)):
        inside, key = drawn.choice(list(places(tree)))
        inside[key] = copy.deepcopy(drawn.choice(ODD))
    return json.dumps(tree).encode()


def mistimed(body: bytes, drawn: random.Random) -> bytes:
    tree = json.loads(body)
    for alert in tree["alerts"]:
        alert[drawn.choice(["startsAt", "endsAt"])] = drawn.choice(TIMES)
    return json.dumps(tree).encode()


def renamed(body: bytes, drawn: random.Random) -> bytes:
    """Names twice, names missing, names that are none."""
    key = drawn.choice([b'"alerts"', b'"version"', b'"labels"', b'"status"', b'"startsAt"'])
    odd = json.dumps(drawn.choice(ODD)).encode()
    return body.replace(
        key + b": ", drawn.choice([key + b": " + odd + b", " + key + b": ", b'"x": ', odd + b": "])
    )


def nested(body: bytes, drawn: random.Random) -> bytes:
    depth = drawn.choice([10, 900, 1100, 50_000])
    deep = drawn.choice([b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth])
    return drawn.choice(
        [deep, body.replace(b'"annotations": {', b'"annotations": ' + deep + b", {")]
    )


def numbered(body: bytes, drawn: random.Random) -> bytes:
    number = drawn.choice([b"9" * 4000, b"9" * 5000, b"1e999", b"-0", b"NaN", b"-Infinity", b"1.0"])
    return body.replace(b'"truncatedAlerts": 0', b'"truncatedAlerts": ' + number)


def told_oddly(body: bytes, drawn: random.Random) -> bytes:
    text = body.decode()
    found: bytes = drawn.choice(
        [
            text.encode("utf-16"),
            text.encode("utf-32"),
            b"\xef\xbb\xbf" + body,
            body + body,
            body.replace(b"gpu-a", b"\\ud800\\udc00\\udfff"),
            body.replace(b"gpu-a", b"\xed\xa0\x80"),
            body.replace(b" ", b"\x00"),
        ]
    )
    return found


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    flipped,
    cut,
    swapped,
    mistimed,
    renamed,
    nested,
    numbered,
    told_oddly,
]


def mutated(count: int, seed: int) -> Iterator[bytes]:
    drawn = random.Random(seed)
    for _ in range(count):
        body = drawn.choice(BODIES)
        for _ in range(drawn.choice([1, 1, 1, 2])):
            with_body = drawn.choice(MUTATIONS)
            try:
                body = with_body(body, drawn) or body
            except (ValueError, RecursionError, KeyError, TypeError, IndexError, AttributeError):
                # The first mutation left nothing that the second could read.
                continue
        yield body[:MOST_BYTES]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A fleet that has the servers of which the bodies speak; seen directly, they work."""
    (tmp_path / "token").write_text("secret")
    with Stage(tmp_path, settings(backend("gpu-a"), backend("gpu-b"))) as one:
        one.witness.seen = making.proof(saw=Saw(Sight.MOVED, "41 steps"), request=Request.ANSWERED)
        yield one


def desk(stage: Stage, tmp_path: Path) -> Desk:
    limits = replace(making.limits(), token_file=tmp_path / "token")
    own = registry(
        RemediatorCollector(limits.mode, ("gpu-a",), stage.store, stage.journal, stage.clock)
    )
    return Desk(limits, stage.store, stage.journal, stage.worker, own, stage.clock, stage.settings)


def test_ten_thousand_bodies_crash_nothing_and_restart_nothing(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("ERROR")
    client = create_app(desk(stage, tmp_path)).test_client()
    met: Counter[int] = Counter()
    for i, body in enumerate(mutated(MANY, seed=4)):
        answer = client.post("/api/alerts", data=body, headers=TOKEN)
        assert answer.status_code in (200, 400), body
        met[answer.status_code] += 1
        if i % BATCH == 0:
            stage.pass_(60, tick=30)
    stage.pass_(60, tick=30)
    assert min(met.values()) > MANY / 10, met
    assert caplog.records == []
    assert stage.restarter.restarted == []
    assert stage.store.attempts.newest(1) == ()
    for path in ("/metrics", "/api/incidents", "/api/decisions", "/", "/-/ready"):
        assert client.get(path).status_code == 200, path


def test_some_hundred_of_them_over_a_socket(
    stage: Stage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("ERROR")
    sock = Listen("127.0.0.1", 0).bound()
    url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    server = Server(create_app(desk(stage, tmp_path)), sock, None, most_bytes=MOST_BYTES)
    server.start()
    try:
        with requests.Session() as session:
            for body in mutated(OVER_SOCKETS, seed=5):
                told = session.post(f"{url}/api/alerts", data=body, headers=TOKEN, timeout=60)
                assert told.status_code in (200, 400), body
            assert session.get(f"{url}/-/ready", timeout=60).ok
    finally:
        server.stop()
    assert caplog.records == []
