"""The running gateway has written an answer's end, and it did not arrive: it is given again."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict, Unpack

import httpx
import openai
import pytest

from gateway.client import ResumingTransport
from gateway.finished import GOOD_FOR_SECONDS
from tests.gateway.cutting import Losing
from tests.gateway.hearing import (
    CHAT,
    COMPLETIONS,
    Heard,
    Stream,
    follow,
    hear,
    listening,
    question,
    text,
    tokens,
    tracking,
)
from tests.gateway.official import official, streamed
from tests.gateway.running import QUICKLY, SLOWLY, Gateway, Row, Simulated, eventually

BOTH = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
KEYS = {"alice": "key-a", "bob": "key-b"}
ALICE, BOB = ({"authorization": f"Bearer {key}"} for key in KEYS.values())
COME_AGAIN = b"retry: 1000\n\n"
LENGTH = 20


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulated]:
    with Simulated(tmp_path_factory.mktemp("backend"), "gpu-a", max_num_seqs=16) as server:
        yield server


@pytest.fixture
def backend(running: Simulated) -> Simulated:
    running.pace(QUICKLY)
    return running


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, running: Simulated) -> Iterator[Gateway]:
    with started(tmp_path_factory.mktemp("gateway"), running) as gateway:
        yield gateway
        assert "level=ERROR" not in gateway.said


class Kept(TypedDict, total=False):
    """Settings of a gateway that say how long, or how much, is kept."""

    resume_for: str
    questions_per_caller: int


def started(
    folder: Path, backend: Simulated, name: str = "gateway", **more: Unpack[Kept]
) -> Gateway:
    lines = [f"{name}:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in KEYS.items()]
    (folder / "keys").write_text("\n".join(lines))
    return Gateway(folder, {"gpu-a": backend.url}, name=name, keys_file="keys", **more)


def asked(gateway: Gateway, path: str, body: object) -> str:
    """Ask for later; where to follow the answer."""
    answered = gateway.post(path, body, prefer="respond-async", **ALICE)
    assert answered.status_code == 202, answered.text
    return str(answered.json()["url"])


def behind(heard: Heard, events: int) -> bytes:
    """What comes after so many events."""
    kept = [event + b"\n\n" for event in heard.raw.split(b"\n\n")[:-1] if b"data: " in event]
    return b"".join(kept[events:])


def of(heard: Heard) -> str:
    return heard.last_id.rpartition(".")[0]


def code(heard: Heard) -> tuple[int, str]:
    return heard.status, json.loads(heard.raw)["error"]["code"]


class Charged:
    """What is on the bill and what was asked of the server: neither is to change."""

    def __init__(self, gateway: Gateway, backend: Simulated) -> None:
        self._gateway, self._backend = gateway, backend
        self._before = self._now()

    def _now(self) -> tuple[dict[str, Row], int, int]:
        asked = self._backend.asked
        return self._gateway.ledger(), asked(CHAT), asked(COMPLETIONS)

    def as_before(self) -> bool:
        return self._now() == self._before


@BOTH
@pytest.mark.parametrize("usage", [False, True])
def test_from_every_place_the_rest_comes_to_the_byte_and_is_charged_once(
    gateway: Gateway, backend: Simulated, path: str, usage: bool
) -> None:
    body = question(path, LENGTH, stream_options={"include_usage": usage})
    whole = hear(gateway.url, path, body, **ALICE)
    row = gateway.billed(of(whole), "complete")
    assert row.completion_tokens == LENGTH
    charged = Charged(gateway, backend)
    for number in range(len(whole.events)):
        again = hear(gateway.url, path, {}, last_event_id=f"{of(whole)}.{number}", **ALICE)
        assert (again.status, again.raw) == (200, behind(whole, number)), number
        assert not again.broken
        assert again.headers["x-request-id"] == of(whole)
    over = hear(gateway.url, path, {}, last_event_id=whole.last_id, **ALICE)
    assert code(over) == (404, "not_kept")
    wrong = hear(gateway.url, path, {}, last_event_id=f"{of(whole)}.1000", **ALICE)
    assert code(wrong) == (400, "malformed")
    other = hear(gateway.url, path, {}, last_event_id=f"{of(whole)}.1", **BOB)
    assert code(other) == (404, "not_kept")
    assert gateway.in_flight() == []
    assert charged.as_before()


@BOTH
def test_who_follows_gets_the_rest_from_every_place_and_nothing_when_there_is_none(
    gateway: Gateway, backend: Simulated, path: str
) -> None:
    url = asked(gateway, path, question(path, LENGTH))
    whole = follow(gateway.url, url)
    whole.is_one_whole_answer(path, question(path, LENGTH))
    gateway.billed(of(whole), "complete")
    charged = Charged(gateway, backend)
    for number in range(len(whole.events)):
        last = {"last_event_id": f"{of(whole)}.{number}"} if number else {}
        again = follow(gateway.url, url, **last)
        assert (again.status, again.raw) == (200, COME_AGAIN + behind(whole, number)), number
    for _ in range(2):
        over = follow(gateway.url, url, last_event_id=whole.last_id)
        assert (over.status, over.raw) == (204, b"")
    assert charged.as_before()


def hung_up(stream: Stream, gateway: Gateway, events: int) -> Heard:
    """What a client has that reads no further, though the gateway wrote all of it."""
    heard = stream.read(events)
    gateway.billed(of(heard), "complete")
    return heard


@BOTH
@pytest.mark.parametrize("missing", [1, 2, 3, LENGTH])
def test_a_connection_that_breaks_at_the_very_end_costs_nothing(
    gateway: Gateway, backend: Simulated, path: str, missing: int
) -> None:
    body = question(path, LENGTH)
    events = LENGTH + 1 + (path == CHAT) - missing
    with listening(gateway.url, path, body, **ALICE) as stream:
        heard = hung_up(stream, gateway, events)
    charged = Charged(gateway, backend)
    rest = hear(gateway.url, path, {}, last_event_id=heard.last_id, **ALICE)
    Heard(200, raw=heard.raw + rest.raw).is_one_whole_answer(path, body)
    with tracking(gateway.url, url := asked(gateway, path, body)) as stream:
        heard = hung_up(stream, gateway, events)
    rest = follow(gateway.url, url, last_event_id=heard.last_id)
    raw = (heard.raw + rest.raw).replace(COME_AGAIN, b"")
    Heard(200, raw=raw).is_one_whole_answer(path, body)
    assert follow(gateway.url, url, last_event_id=rest.last_id).status == 204
    assert not charged.as_before()  # the second one
    assert gateway.billed(of(rest), "complete").completion_tokens == LENGTH


@BOTH
def test_what_was_taken_up_and_loses_its_end_goes_on_once_more(
    tmp_path: Path, backend: Simulated, path: str
) -> None:
    body = question(path, 200)
    backend.pace(SLOWLY)
    with started(tmp_path, backend) as one, listening(one.url, path, body, **ALICE) as stream:
        stream.read(10)
        one.term_twice()
        first = stream.rest()
        assert first.goodbye
        assert one.wait() == 0
    backend.pace(QUICKLY)
    token = {"x_resume_token": first.goodbye["resumeToken"], **ALICE}
    with started(tmp_path, backend, "two") as two:
        with listening(two.url, path, body, **token) as stream:
            second = hung_up(stream, two, 15)
        charged = Charged(two, backend)
        spent = hear(two.url, path, {}, **token)
        assert code(spent) == (410, "spent")
        for named in (ALICE, token):
            third = hear(two.url, path, {}, last_event_id=second.last_id, **named)
            raw = first.raw[: first.raw.rindex(b"id: ")] + second.raw + third.raw
            assert Heard(raw=raw).text == text(path, body)
            assert third.numbers[0] == second.numbers[-1] + 1
            assert (third.done, third.finish_reasons) == (1, ["length"])
        early = hear(two.url, path, {}, last_event_id=f"{of(first)}.3", **ALICE)
        assert code(early) == (410, "too_far_back")
        assert charged.as_before()
        row = two.billed(of(first), "complete")
        assert row.completion_tokens == len(tokens(path, body))


@pytest.mark.usefixtures("backend")
def test_an_answer_of_any_kind_has_its_end_given_again_unless_that_is_forbidden(
    gateway: Gateway,
) -> None:
    for more in ({"structured_outputs": {"regex": "."}}, {"stop": ["zzz"]}, {"seed": 1}):
        whole = hear(gateway.url, CHAT, question(CHAT, LENGTH, **more), **ALICE)
        assert whole.done == 1, whole.raw
        number = len(whole.events) - 2
        again = hear(gateway.url, CHAT, {}, last_event_id=f"{of(whole)}.{number}", **ALICE)
        assert again.raw == behind(whole, number)
    whole = hear(gateway.url, CHAT, question(CHAT, LENGTH), x_resume="never", **ALICE)
    gateway.billed(of(whole), "complete")
    last = f"{of(whole)}.{len(whole.events) - 2}"
    assert code(hear(gateway.url, CHAT, {}, last_event_id=last, **ALICE)) == (404, "not_kept")


def test_another_gateway_and_the_next_one_know_nothing_of_it(
    tmp_path: Path, backend: Simulated
) -> None:
    def all_is_over(by: Gateway) -> None:
        by.billed(of(whole), "complete")
        refused = hear(by.url, CHAT, {}, last_event_id=f"{of(whole)}.5", **ALICE)
        assert code(refused) == (404, "not_kept")
        assert follow(by.url, url, last_event_id=f"{of(followed)}.5").status == 204

    with started(tmp_path, backend) as one:
        whole = hear(one.url, CHAT, question(CHAT, LENGTH), **ALICE)
        followed = follow(one.url, url := asked(one, CHAT, question(CHAT, LENGTH)))
        one.billed(of(followed), "complete")
        with started(tmp_path, backend, "two") as two:
            all_is_over(two)
        assert follow(one.url, url, last_event_id=f"{of(followed)}.5").done == 1
        one.term()
        assert one.wait() == 0
    with started(tmp_path, backend) as one:
        all_is_over(one)


def test_it_is_kept_no_longer_than_anything_else(tmp_path: Path, backend: Simulated) -> None:
    with started(tmp_path, backend, resume_for="1s") as gateway:
        whole = hear(gateway.url, CHAT, question(CHAT, LENGTH), **ALICE)

        def is_over() -> bool:
            again = hear(gateway.url, CHAT, {}, last_event_id=f"{of(whole)}.5", **ALICE)
            assert again.status in (200, 404)
            return again.status == 404

        eventually(is_over, "it is forgotten", seconds=GOOD_FOR_SECONDS / 2)


def said_by(client: openai.OpenAI, body: dict[str, object]) -> str:
    with client, streamed(client, body) as chunks:
        parts = [part.choices[0].delta.content for part in chunks if part.choices]
    return "".join(part or "" for part in parts)


@pytest.mark.parametrize("after", [1, LENGTH, LENGTH + 1])
def test_the_official_client_does_not_notice_that_the_end_was_lost(
    gateway: Gateway, backend: Simulated, after: int
) -> None:
    body, before = question(CHAT, LENGTH), len(gateway.ledger())
    asked_before = backend.asked(CHAT)
    with Losing(gateway.port, [after]) as way:
        transport = ResumingTransport(httpx.HTTPTransport(verify=False))
        client = official(way.url, transport, key=KEYS["alice"], retries=0)
        assert said_by(client, body) == text(CHAT, body)
        assert way.after == []
    assert backend.asked(CHAT) == asked_before + 1
    eventually(lambda: len(gateway.ledger()) == before + 1, "it is booked once")


def test_the_official_client_finds_the_gateway_that_has_the_end(
    tmp_path: Path, backend: Simulated
) -> None:
    body = question(CHAT, LENGTH)
    with (
        started(tmp_path, backend, "one") as one,
        started(tmp_path, backend, "two") as two,
        Losing(one.port, [LENGTH]) as way,
    ):
        transport = ResumingTransport(httpx.HTTPTransport(verify=False), others=[two.url])
        client = official(way.url, transport, key=KEYS["alice"], retries=0)
        assert said_by(client, body) == text(CHAT, body)
        eventually(lambda: [row.state for row in one.ledger().values()] == ["complete"], "booked")


def asking(gateway: Gateway, **who: str) -> Callable[[], tuple[int, str]]:
    def ask() -> tuple[int, str]:
        answered = gateway.post(CHAT, question(CHAT, 3), prefer="respond-async", **who)
        if answered.status_code == 429:
            assert answered.headers["retry-after"].isdecimal()
            return 429, str(answered.json()["error"]["message"])
        assert answered.status_code == 202
        return 202, str(answered.json()["url"])

    return ask


def test_a_caller_has_so_many_questions_and_no_more(tmp_path: Path, backend: Simulated) -> None:
    with started(tmp_path, backend, questions_per_caller=2) as gateway:
        alice, bob = asking(gateway, **ALICE), asking(gateway, **BOB)
        urls = [alice()[1] for _ in range(2)]
        too_many = (429, "2 requests of this caller are kept to be followed already")
        assert [alice(), alice()] == [too_many, too_many]
        assert bob()[0] == 202
        assert hear(gateway.url, CHAT, question(CHAT, 3), **ALICE).done == 1
        assert follow(gateway.url, urls[0]).done == 1
        eventually(lambda: alice()[0] == 202, "there is room again")
        assert alice() == too_many
        metrics = httpx.get(f"{gateway.url}/metrics").text
        assert 'gateway_refused_total{status="429"}' in metrics
