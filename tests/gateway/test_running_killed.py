"""A gateway is killed in the middle of streams: they go on at another one, from any event."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from gateway.client import ResumingTransport
from tests.gateway.hearing import (
    CHAT,
    COMPLETIONS,
    Heard,
    hear,
    listening,
    prompt_length,
    question,
    text,
    tokens,
)
from tests.gateway.official import official, streamed
from tests.gateway.running import QUICKLY, Gateway, Simulated, eventually

BOTH = pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
STREAMS = 6
LENGTH = 120


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Simulated]:
    with Simulated(tmp_path, "gpu-a", steps_per_second=20, max_num_seqs=32) as backend:
        yield backend


def started(
    folder: Path, backend: Simulated, name: str, *, journal_folder: str | None = None
) -> Gateway:
    journal = journal_folder or f"{name}.journal"
    return Gateway(folder, {"gpu-a": backend.url}, name=name, journal_folder=journal)


def only(heard: Heard, events: int) -> Heard:
    """A client that got no more than the first events."""
    raw = b"".join(event + b"\n\n" for event in heard.raw.split(b"\n\n")[:events])
    return Heard(heard.status, heard.headers, raw)


def goes_on(gateway: Gateway, path: str, body: object, heard: Heard) -> Heard:
    """What comes after the last event, as soon as it comes."""
    answers: list[Heard] = []

    def ask() -> bool:
        answers.append(hear(gateway.url, path, body, last_event_id=heard.last_id))
        return answers[-1].status != 409

    eventually(ask, "it is no longer busy")
    assert answers[-1].status == 200, answers[-1].raw
    return Heard(heard.status, heard.headers, heard.raw + answers[-1].raw)


@BOTH
@pytest.mark.parametrize("next_one", ["its neighbour", "itself again"])
def test_streams_of_a_killed_gateway_go_on_from_any_of_their_events(
    tmp_path: Path, backend: Simulated, path: str, next_one: str
) -> None:
    shared = {"journal_folder": "journal"}
    with ExitStack() as stack:
        one = stack.enter_context(started(tmp_path, backend, "one", **shared))
        if next_one == "its neighbour":
            two = stack.enter_context(started(tmp_path, backend, "two", **shared))
        body = question(path, LENGTH)
        streams = [stack.enter_context(listening(one.url, path, body)) for _ in range(STREAMS)]
        heard = [stream.read(30) for stream in streams]
        one.kill()
        heard = [stream.rest() for stream in streams]
        assert all(one.broken for one in heard)
        backend.pace(QUICKLY)
        if next_one == "itself again":
            two = stack.enter_context(started(tmp_path, backend, "one", **shared))
        for number, got in enumerate(heard):
            # Some clients had not got what was on its way to them.
            had = only(got, len(got.events) - number * 4)
            whole = goes_on(two, path, body, had)
            whole.is_one_whole_answer(path, body)
            row = two.billed(had.last_id.rpartition(".")[0], "complete")
            assert row.completion_tokens == len(tokens(path, body))
            assert row.prompt_tokens == prompt_length(path, body)


def test_it_is_killed_again_and_again(tmp_path: Path, backend: Simulated) -> None:
    body = question(CHAT, LENGTH)
    heard = Heard()
    for length in (10, 40, 70):
        with started(tmp_path, backend, "one") as gateway:
            last = {"last_event_id": heard.last_id} if heard.raw else {}
            with listening(gateway.url, CHAT, body, **last) as stream:
                got = stream.read(length - len(heard.events))
                gateway.kill()
                got = stream.rest()
            # Each time two events are lost on their way.
            raw = heard.raw + got.raw
            heard = only(Heard(200, raw=raw), len(Heard(raw=raw).events) - 2)
    backend.pace(QUICKLY)
    with started(tmp_path, backend, "one") as gateway:
        whole = goes_on(gateway, CHAT, body, heard)
        whole.is_one_whole_answer(CHAT, body)
        row = gateway.billed(heard.last_id.rpartition(".")[0], "complete")
        assert row.completion_tokens == len(tokens(CHAT, body))
        assert row.prompt_tokens == prompt_length(CHAT, body)


@BOTH
def test_who_hung_up_goes_on_from_an_earlier_event_too(
    tmp_path: Path, backend: Simulated, path: str
) -> None:
    body = question(path, LENGTH)
    with started(tmp_path, backend, "one") as gateway:
        with listening(gateway.url, path, body) as stream:
            heard = stream.read(40)
        backend.pace(QUICKLY)
        whole = goes_on(gateway, path, body, only(heard, 17))
        whole.is_one_whole_answer(path, body)
        row = gateway.billed(heard.last_id.rpartition(".")[0], "complete")
        assert row.completion_tokens == len(tokens(path, body))


def test_an_event_that_never_was_is_no_place_to_go_on_from(
    tmp_path: Path, backend: Simulated
) -> None:
    body = question(CHAT, LENGTH)
    with started(tmp_path, backend, "one") as gateway:
        with listening(gateway.url, CHAT, body) as stream:
            heard = stream.read(10)
        request_id = heard.last_id.rpartition(".")[0]
        gateway.billed(request_id, "partial")
        wrong = gateway.post(CHAT, body, last_event_id=f"{request_id}.100000")
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "malformed")
        backend.pace(QUICKLY)
        goes_on(gateway, CHAT, body, heard).is_one_whole_answer(CHAT, body)


def test_the_official_client_does_not_notice_that_a_gateway_is_killed(
    tmp_path: Path, backend: Simulated
) -> None:
    body = question(CHAT, LENGTH)
    shared = {"journal_folder": "journal"}
    with (
        started(tmp_path, backend, "one", **shared) as one,
        started(tmp_path, backend, "two", **shared) as two,
    ):
        transport = ResumingTransport(httpx.HTTPTransport(verify=False), others=[two.url])
        client = official(one.url, transport, key="any", retries=0)
        said = ""
        with client, streamed(client, body) as chunks:
            for number, part in enumerate(chunks):
                said += part.choices[0].delta.content or "" if part.choices else ""
                if number == 10:
                    one.kill()
                    backend.pace(QUICKLY)
        assert said == text(CHAT, body)
        eventually(lambda: [r.state for r in two.ledger().values()] == ["complete"], "billed")
        [row] = two.ledger().values()
        assert row.completion_tokens == LENGTH
