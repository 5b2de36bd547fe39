"""The running gateway and those who ask first and follow the answer after that, as browsers do."""

import hashlib
import json
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.gateway.hearing import (
    CHAT,
    COMPLETIONS,
    Heard,
    follow,
    prompt_length,
    question,
    tokens,
    tracking,
)
from tests.gateway.hostile import Hostile, answer
from tests.gateway.playing import Got
from tests.gateway.running import Gateway, Simulated, eventually

BOTH = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
KEYS = {"alice": "key-a", "bob": "key-b"}
ALICE, BOB = ({"authorization": f"Bearer {key}"} for key in KEYS.values())
PAGE = "https://app.example.org"
COME_AGAIN = b"retry: 1000\n\n"


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with Simulated(tmp_path_factory.mktemp("backend"), "gpu-a", steps_per_second=100) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, backend: Simulated) -> Iterator[Gateway]:
    with Gateway(
        with_keys(tmp_path_factory.mktemp("gateway")),
        {"gpu-a": backend.url},
        keys_file="keys",
        cors_origins=[PAGE],
    ) as gateway:
        yield gateway
        # Whatever was asked of it in these tests, no ticket was written down.
        assert "t1." not in gateway.said
        assert "ticket=" not in gateway.said
        assert "level=ERROR" not in gateway.said


def with_keys(folder: Path) -> Path:
    lines = [f"{name}:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in KEYS.items()]
    (folder / "keys").write_text("\n".join(lines))
    return folder


def ask(gateway: Gateway, path: str, body: object, **headers: str) -> str:
    """Ask for later; where to follow the answer."""
    asked = gateway.post(path, body, prefer="respond-async", **{**ALICE, **headers})
    assert asked.status_code == 202, asked.text
    return str(asked.json()["url"])


def id_of(url: str) -> str:
    return urlsplit(url).path.rpartition("/")[2]


def is_to_come_again(heard: Heard) -> bool:
    assert heard.status == 200, heard.raw
    assert heard.raw.startswith(COME_AGAIN)
    return not heard.events  # there may be comments


def after_coming_again(gateway: Gateway, url: str, **headers: str) -> Heard:
    """What follows once there is something."""
    found: list[Heard] = []

    def comes() -> bool:
        found.append(follow(gateway.url, url, **headers))
        return not is_to_come_again(found[-1])

    eventually(comes, "the stream goes on")
    return found[-1]


@BOTH
def test_what_is_asked_is_answered_to_who_follows_it(
    gateway: Gateway, backend: Simulated, path: str
) -> None:
    body, before = question(path), backend.asked(path)
    asked = gateway.post(path, body, prefer="respond-async", origin=PAGE, **ALICE)
    assert asked.status_code == 202
    assert asked.headers["preference-applied"] == "respond-async"
    assert asked.headers["access-control-allow-origin"] == PAGE
    assert asked.headers["cache-control"] == "no-store"
    name, url = asked.json()["id"], asked.json()["url"]
    assert asked.headers["location"] == f"/v1/streams/{name}"
    assert asked.headers["x-request-id"] == name
    assert url.startswith(f"/v1/streams/{name}?ticket=t1.")
    assert backend.asked(path) == before
    assert name not in gateway.ledger()
    heard = follow(gateway.url, url, origin=PAGE)
    assert heard.raw.startswith(COME_AGAIN)
    assert heard.headers["content-type"].startswith("text/event-stream")
    assert heard.headers["access-control-allow-origin"] == PAGE
    heard.is_one_whole_answer(path, body)
    row = gateway.billed(name, "complete")
    assert (row.caller, row.prompt_tokens) == ("alice", prompt_length(path, body))
    assert row.completion_tokens == len(tokens(path, body))
    over = follow(gateway.url, url, last_event_id=heard.last_id, origin=PAGE)
    assert (over.status, over.raw) == (204, b"")
    assert over.headers["access-control-allow-origin"] == PAGE
    assert backend.asked(path) == before + 1


def test_who_has_the_key_needs_no_ticket(gateway: Gateway) -> None:
    body = question(CHAT)
    asked = gateway.post(CHAT, body, prefer="respond-async", **ALICE)
    location = asked.headers["location"]
    assert follow(gateway.url, location).status == 401
    assert follow(gateway.url, location, authorization="Bearer key-c").status == 401
    other = follow(gateway.url, location, **BOB)
    assert (other.status, json.loads(other.raw)["error"]["code"]) == (404, "not_kept")
    follow(gateway.url, location, **ALICE).is_one_whole_answer(CHAT, body)


def test_a_ticket_is_good_for_its_own_stream_alone(gateway: Gateway) -> None:
    one, two = (ask(gateway, CHAT, question(CHAT, 5)) for _ in range(2))
    ticket = one.partition("?")[2]
    for wrong, status, code in (
        (f"{urlsplit(two).path}?{ticket}", 403, "another_caller"),
        (f"{urlsplit(one).path}?ticket=", 400, "malformed"),
        (f"{urlsplit(one).path}?ticket=nonsense", 400, "malformed"),
        (f"{one[:-8]}AAAAAAAA", 400, "unknown_key"),
    ):
        heard = follow(gateway.url, wrong, **ALICE)
        assert (heard.status, json.loads(heard.raw)["error"]["code"]) == (status, code), wrong
        assert ticket[-20:] not in heard.raw.decode()
    assert follow(gateway.url, two, last_event_id=f"{id_of(one)}.1").status == 400
    assert follow(gateway.url, two, last_event_id="nonsense").status == 400
    assert gateway.post(one, {}).status_code == 405
    assert follow(gateway.url, one).done == follow(gateway.url, two).done == 1


def test_what_is_wrong_is_told_to_who_asks(gateway: Gateway, backend: Simulated) -> None:
    before, rows = backend.asked(CHAT), len(gateway.ledger())

    def post(body: object) -> tuple[int, str]:
        refused = gateway.post(CHAT, body, prefer="respond-async", **ALICE)
        return refused.status_code, refused.json()["error"]["param"]

    assert post(question(CHAT) | {"n": 0}) == (400, "n")
    assert post(question(CHAT) | {"stream": 1}) == (400, "stream")
    assert post(question(CHAT) | {"model": "none"}) == (404, "model")
    assert gateway.post(CHAT, question(CHAT), prefer="respond-async").status_code == 401
    assert (backend.asked(CHAT), len(gateway.ledger())) == (before, rows)


def test_a_preference_for_later_is_left_out_where_nothing_is_streamed(gateway: Gateway) -> None:
    body = question(CHAT, 5) | {"stream": False}
    answered = gateway.post(CHAT, body, prefer="respond-async", **ALICE)
    assert answered.status_code == 200
    assert "preference-applied" not in answered.headers


def test_the_servers_own_refusal_is_passed_on_to_who_follows(gateway: Gateway) -> None:
    url = ask(gateway, CHAT, question(CHAT, 10**9))
    heard = follow(gateway.url, url)
    assert heard.status == 400
    assert json.loads(heard.raw)["error"]["message"]
    gateway.billed(id_of(url), "refused")


def test_while_it_is_answered_others_are_told_to_come_again(
    gateway: Gateway, backend: Simulated
) -> None:
    before = backend.asked(CHAT)
    url = ask(gateway, CHAT, question(CHAT, 150))
    with tracking(gateway.url, url) as stream:
        stream.read(3)
        for last in ("", stream.heard.last_id):
            assert is_to_come_again(follow(gateway.url, url, last_event_id=last))
            assert [row["id"] for row in gateway.in_flight()] == [id_of(url)]
        stream.rest().is_one_whole_answer(CHAT, question(CHAT, 150))
    assert backend.asked(CHAT) == before + 1


def test_of_many_who_come_at_once_one_is_answered(gateway: Gateway, backend: Simulated) -> None:
    before = backend.asked(CHAT)
    url = ask(gateway, CHAT, question(CHAT, 100))
    with ThreadPoolExecutor(8) as pool:
        came = list(pool.map(lambda _: follow(gateway.url, url), range(8)))
    [whole] = [heard for heard in came if not is_to_come_again(heard)]
    whole.is_one_whole_answer(CHAT, question(CHAT, 100))
    assert backend.asked(CHAT) == before + 1
    gateway.billed(id_of(url), "complete")
    assert follow(gateway.url, url).raw == whole.raw  # for a minute: it may not have arrived
    assert follow(gateway.url, url, last_event_id=whole.last_id).status == 204


def test_an_idempotency_key_is_charged_once_however_it_is_asked(gateway: Gateway) -> None:
    named = {"idempotency-key": "once"}
    first, second = (ask(gateway, CHAT, question(CHAT, 5), **named) for _ in range(2))
    follow(gateway.url, second).is_one_whole_answer(CHAT, question(CHAT, 5))
    gateway.billed(id_of(second), "complete")
    assert follow(gateway.url, first).status == 409
    assert id_of(first) not in gateway.ledger()
    for prefer in ("respond-async", "wait=5"):
        again = gateway.post(CHAT, question(CHAT, 5), prefer=prefer, **named, **ALICE)
        assert again.status_code == 409


def test_a_clients_own_id_may_be_any(gateway: Gateway) -> None:
    name = "mine/1?a#%41.7&x=y"
    body = question(CHAT, 5)
    asked = gateway.post(CHAT, body, prefer="respond-async", x_request_id=name, **ALICE)
    assert asked.json()["id"] == name
    heard = follow(gateway.url, asked.json()["url"])
    heard.is_one_whole_answer(CHAT, body)
    assert heard.last_id.startswith(f"{name}.")
    again = gateway.post(CHAT, body, prefer="respond-async", x_request_id=name, **ALICE)
    assert again.status_code == 409


def test_who_hangs_up_before_the_first_byte_begins_at_the_beginning(
    gateway: Gateway, backend: Simulated
) -> None:
    body = question(CHAT, 20)
    url = ask(gateway, CHAT, body)
    backend.fault("freeze")
    try:
        with following_in_vain(gateway, url):
            eventually(lambda: backend.in_hand == 1, "it is asked for")
        eventually(lambda: gateway.in_flight() == [], "it is forgotten")
    finally:
        backend.fault("thaw")
    eventually(lambda: backend.in_hand == 0, "and at the backend, too")
    after_coming_again(gateway, url).is_one_whole_answer(CHAT, body)
    assert gateway.billed(id_of(url), "complete").completion_tokens == 20


def following_in_vain(gateway: Gateway, url: str) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=20.0)
    connection.sendall(f"GET {url} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    return connection


def test_who_hangs_up_while_he_is_let_in_is_charged_nothing(gateway: Gateway) -> None:
    body = question(CHAT, 30)
    urls = [ask(gateway, CHAT, body) for _ in range(20)]
    for url in urls:
        following_in_vain(gateway, url).close()
    eventually(lambda: gateway.in_flight() == [], "all are forgotten")
    for url in urls:
        after_coming_again(gateway, url).is_one_whole_answer(CHAT, body)
    assert {gateway.billed(id_of(url), "complete").completion_tokens for url in urls} == {30}


def test_where_nobody_can_answer_it_stays_there_for_later(gateway: Gateway) -> None:
    url = ask(gateway, CHAT, question(CHAT, 10))
    gateway.admin("backends/gpu-a/drain", "POST")
    try:
        assert is_to_come_again(follow(gateway.url, url))
    finally:
        gateway.admin("backends/gpu-a/undrain", "POST")
    after_coming_again(gateway, url).is_one_whole_answer(CHAT, question(CHAT, 10))


@BOTH
def test_it_goes_on_at_another_gateway(tmp_path: Path, backend: Simulated, path: str) -> None:
    body = question(path, 250)
    folder, backends = with_keys(tmp_path), {"gpu-a": backend.url}
    with (
        Gateway(folder, backends, name="one", keys_file="keys") as one,
        Gateway(folder, backends, name="two", keys_file="keys") as two,
        Gateway(folder, backends, name="three", keys_file="keys") as three,
    ):
        url = ask(one, path, body)
        with tracking(two.url, url) as stream:
            stream.read(20)
            assert is_to_come_again(follow(one.url, url))
            two.term_twice()
            heard = stream.rest()
        assert heard.goodbye
        assert heard.goodbye["resumeToken"]
        assert two.wait() == 0
        rest = after_coming_again(three, url, last_event_id=heard.last_id)
        assert rest.raw.startswith(COME_AGAIN)
        assert rest.numbers[0] == heard.numbers[-1] + 1
        whole = Heard(200, raw=heard.raw[: heard.raw.rindex(b"id: ")] + rest.raw)
        whole.raw = whole.raw.replace(COME_AGAIN, b"")
        assert whole.done == 1
        assert len(whole.who) == 1
        assert [len(tokens(path, body)), "complete"] == [
            (row := one.billed(id_of(url), "complete")).completion_tokens,
            row.state,
        ]
        assert follow(one.url, url, last_event_id=rest.last_id).status == 204


def test_what_never_goes_on_is_over_when_it_is_cut(tmp_path: Path, backend: Simulated) -> None:
    body = question(CHAT, 250)
    with Gateway(tmp_path, {"gpu-a": backend.url}) as gateway:
        url = ask(gateway, CHAT, body, **{"x-resume": "never"})
        with tracking(gateway.url, url) as stream:
            heard = stream.read(20)
        gateway.billed(id_of(url), "partial")
        for last in ("", heard.last_id):
            refused = follow(gateway.url, url, last_event_id=last)
            assert (refused.status, json.loads(refused.raw)["error"]["code"]) == (404, "not_kept")


def test_a_gateway_that_closes_tells_who_follows_to_come_again(
    tmp_path: Path, backend: Simulated
) -> None:
    with Gateway(tmp_path, {"gpu-a": backend.url}, propagation="1s") as gateway:
        url, long = (ask(gateway, CHAT, question(CHAT, 3000)) for _ in range(2))
        with tracking(gateway.url, long) as stream:
            stream.read(2)
            gateway.term()
            refused = question(CHAT, 3)
            eventually(lambda: gateway.post(CHAT, refused).status_code == 503, "it closes")
            assert is_to_come_again(follow(gateway.url, url))
            gateway.term()
            stream.rest()
        assert gateway.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_gateway_that_ends_before_the_first_event_has_lost_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    body = question(CHAT, 30)
    with Simulated(tmp_path, "gpu-a", steps_per_second=100) as backend:
        backends = {"gpu-a": backend.url}
        with Gateway(tmp_path, backends, first_byte_after="60s") as gateway:
            url = ask(gateway, CHAT, body)
            backend.fault("freeze")
            with tracking(gateway.url, url) as stream:
                eventually(lambda: backend.in_hand == 1, "it is asked for")
                while b": still here" not in stream.heard.raw:
                    stream.heard.raw += stream._response.readline()
                gateway.signal(number)
                if number is signal.SIGTERM:
                    eventually(lambda: gateway.status("/-/ready") == 503, "it was told")
                    gateway.term()
                heard = stream.rest()
            gateway.wait()
        assert heard.events == []
        backend.fault("thaw")
        with Gateway(tmp_path, backends) as gateway:
            after_coming_again(gateway, url).is_one_whole_answer(CHAT, body)
            assert gateway.billed(id_of(url), "complete").completion_tokens == 30


def test_what_is_asked_expires(tmp_path: Path, backend: Simulated) -> None:
    with Gateway(tmp_path, {"gpu-a": backend.url}, resume_for="1s") as gateway:
        asked = gateway.post(CHAT, question(CHAT, 5), prefer="respond-async")
        threading.Event().wait(1.1)
        for url in (asked.json()["url"], asked.headers["location"]):
            refused = follow(gateway.url, url)
            assert (refused.status, json.loads(refused.raw)["error"]["code"]) == (410, "expired")
        assert gateway.ledger() == {}


def test_a_ticket_is_no_better_than_its_callers_key(tmp_path: Path, backend: Simulated) -> None:
    folder = with_keys(tmp_path)
    with Gateway(folder, {"gpu-a": backend.url}, keys_file="keys") as gateway:
        url = ask(gateway, CHAT, question(CHAT, 5))
        lines = (folder / "keys").read_text().splitlines()
        (folder / "keys").write_text(lines[1])
        eventually(lambda: gateway.post(CHAT, {}, **ALICE).status_code == 401, "read anew")
        assert follow(gateway.url, url).status == 401


def test_a_server_is_asked_as_if_the_client_had_asked(tmp_path: Path) -> None:
    asked: list[Got] = []

    def note(connection: object, got: Got) -> None:
        asked.append(got)
        answer(connection, 400, b"{}")  # type: ignore[arg-type]

    with Hostile(note) as hostile, Gateway(tmp_path, {"gpu-a": hostile.url}) as gateway:
        url = ask(gateway, CHAT, question(CHAT))
        assert follow(gateway.url, url, cookie="a=b", referer="x").status == 400
    [got] = [one for one in asked if CHAT in one.line]
    assert got.line == f"POST {CHAT} HTTP/1.1"
    assert got.headers["content-type"] == "application/json"
    assert got.headers["x-request-id"] == id_of(url)
    assert not {"cookie", "referer", "accept"} & set(got.headers)
