"""The client against a gateway that is played over real sockets."""

import asyncio
import json
from collections.abc import Callable

import httpx
import openai
import pytest

from gateway.client import (
    AsyncResumingTransport,
    InterruptedStreamError,
    Patience,
    ResumingTransport,
    aevents,
    events,
)
from tests.gateway.official import official, official_async, streamed, streamed_async
from tests.gateway.playing import TOKEN, PlayingGateway, Sent, after, answer, chat, event

TEXTS = ["Ein ", "größer", "es 🤝", " Wort", " สวัสดี"]
WHOLE = answer(TEXTS)
TEXT = "".join(TEXTS)
ASKED = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
Ask = Callable[..., bytes]


class Sleeps:
    """Notes how long it was asked to wait, and does not."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)

    async def later(self, seconds: float) -> None:
        self.seconds.append(seconds)


def ask_sync(url: str, sleeps: Sleeps, others: tuple[str, ...], patience: Patience) -> bytes:
    # Without certificates, whose reading takes longer than the rest.
    inner = httpx.HTTPTransport(verify=False)
    transport = ResumingTransport(inner, others=others, patience=patience, sleep=sleeps)
    with httpx.Client(transport=transport) as client:
        return client.post(url, json=ASKED, headers={"authorization": "Bearer key"}).content


def ask_async(url: str, sleeps: Sleeps, others: tuple[str, ...], patience: Patience) -> bytes:
    async def ask() -> bytes:
        inner = httpx.AsyncHTTPTransport(verify=False)
        transport = AsyncResumingTransport(
            inner, others=others, patience=patience, sleep=sleeps.later
        )
        async with httpx.AsyncClient(transport=transport) as client:
            answered = await client.post(url, json=ASKED, headers={"authorization": "Bearer key"})
            return answered.content

    return asyncio.run(ask())


@pytest.fixture(params=[ask_sync, ask_async], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    by: Ask = request.param

    def asking(
        url: str,
        sleeps: Sleeps | None = None,
        others: tuple[str, ...] = (),
        patience: Patience = Patience(),  # noqa: B008 -- it is frozen
    ) -> bytes:
        return by(url, sleeps or Sleeps(), others, patience)

    return asking


@pytest.mark.parametrize("end", ["clean", "cut", "reset"])
def test_a_stream_cut_after_any_number_of_bytes_is_whole(ask: Ask, end: str) -> None:
    whole = event(1, '"é"') + event(2, '"🤝"') + event(3, "[DONE]")
    sizes = range(whole.index(b"\n\n") + 2, len(whole))
    plan = [sent for size in sizes for sent in (Sent(size=size, end=end), Sent())]
    with PlayingGateway(whole, *plan) as gateway:
        assert [ask(gateway.url) for _ in sizes] == [whole] * len(sizes)


def test_a_stream_that_is_cut_at_every_event_is_whole(ask: Ask) -> None:
    one_each = [
        Sent(size=len(after(WHOLE, n)) - len(after(WHOLE, n + 1)), end="cut") for n in range(5)
    ]
    with PlayingGateway(WHOLE, *one_each, Sent()) as gateway:
        # One try in a row is enough where each brings something new.
        assert ask(gateway.url, patience=Patience(tries=1)) == WHOLE
        assert [got.headers.get("last-event-id") for got in gateway.got] == [
            None,
            *(f"req-1.{n}" for n in range(1, 6)),
        ]


def test_the_shutdown_frame_is_answered_with_its_token_and_the_same_request(ask: Ask) -> None:
    first = Sent(size=WHOLE.index(b"\n\n") + 2, goodbye=True)
    rest = b"".join(event(n, chat(text)) for n, text in enumerate(TEXTS[1:], start=3))
    rest += event(7, "[DONE]")
    with PlayingGateway(WHOLE, first, Sent(body=rest)) as gateway:
        assert ask(gateway.url) == event(1, chat(TEXTS[0])) + rest
        began, went_on = gateway.got
    assert went_on.headers["x-resume-token"] == TOKEN
    assert went_on.headers["last-event-id"] == "req-1.2"
    assert went_on.headers["authorization"] == "Bearer key"
    assert (went_on.line, went_on.body) == (began.line, began.body)
    assert "x-resume-token" not in began.headers


def test_after_a_shutdown_frame_the_next_gateway_is_asked(ask: Ask) -> None:
    rest = event(3, chat("b")) + event(4, "[DONE]")
    with (
        PlayingGateway(WHOLE, Sent(size=WHOLE.index(b"\n\n") + 2, goodbye=True)) as one,
        PlayingGateway(WHOLE, Sent(body=rest)) as two,
    ):
        assert ask(one.url, others=(two.origin,)) == event(1, chat(TEXTS[0])) + rest
        assert len(one.got) == len(two.got) == 1
        assert two.got[0].headers["host"] == two.origin.removeprefix("http://")


def test_where_nobody_listens_another_gateway_is_asked_at_once(ask: Ask) -> None:
    with PlayingGateway(WHOLE, Sent()) as gone:
        url = gone.url
    with PlayingGateway(WHOLE, Sent(size=400, end="cut"), Sent()) as there:
        assert ask(url, others=(there.origin,)) == WHOLE
        assert "last-event-id" not in there.got[0].headers


def test_a_busy_gateway_is_asked_again_when_it_says(ask: Ask) -> None:
    busy = Sent(status=503, headers={"retry-after": "7"})
    sleeps = Sleeps()
    plan = (Sent(size=400, end="cut"), busy, Sent(status=409), busy, Sent())
    with PlayingGateway(WHOLE, *plan) as gateway:
        assert ask(gateway.url, sleeps) == WHOLE
    assert sleeps.seconds == [0.0, 7.0, 1.0, 7.0]


def test_a_token_that_is_refused_is_left_out_once(ask: Ask) -> None:
    first = Sent(size=WHOLE.index(b"\n\n") + 2, goodbye=True)
    rest = event(3, chat("b")) + event(4, "[DONE]")
    with PlayingGateway(WHOLE, first, Sent(status=410), Sent(body=rest)) as gateway:
        assert ask(gateway.url) == event(1, chat(TEXTS[0])) + rest
        assert [got.headers.get("x-resume-token") for got in gateway.got] == [None, TOKEN, None]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_refusal_that_stays_one_is_an_error_with_what_came(ask: Ask, status: int) -> None:
    size = len(WHOLE) - len(after(WHOLE, 2))
    with (
        PlayingGateway(WHOLE, Sent(size=size, end="cut"), Sent(status=status)) as gateway,
        pytest.raises(InterruptedStreamError, match=f"{status}: refused with {status}") as caught,
    ):
        ask(gateway.url)
    assert caught.value.received == WHOLE[:size]
    assert caught.value.last_event_id == "req-1.2"
    assert caught.value.resume_token is None
    assert len(gateway.got) == 2


@pytest.mark.parametrize("status", [404, 410])
def test_every_gateway_is_asked_for_what_one_alone_may_have(ask: Ask, status: int) -> None:
    size = len(WHOLE) - len(after(WHOLE, 2))
    cut = Sent(size=size, end="cut")
    with (
        PlayingGateway(WHOLE, cut, Sent(body=after(WHOLE, 2))) as one,
        PlayingGateway(WHOLE, Sent(status=status)) as two,
        PlayingGateway(WHOLE, Sent(status=status)) as three,
    ):
        assert ask(one.url, others=(two.origin, three.origin)) == WHOLE
        assert [len(gateway.got) for gateway in (one, two, three)] == [2, 1, 1]
    with (
        PlayingGateway(WHOLE, cut, Sent(status=status)) as one,
        PlayingGateway(WHOLE, Sent(status=status)) as two,
        pytest.raises(InterruptedStreamError, match=f"{status}: refused with {status}"),
    ):
        ask(one.url, others=(two.origin,))
    assert [len(gateway.got) for gateway in (one, two)] == [2, 1]


@pytest.mark.parametrize("busy", [409, 503])
def test_one_that_may_have_it_and_is_busy_is_asked_again(ask: Ask, busy: int) -> None:
    cut = Sent(size=len(WHOLE) - len(after(WHOLE, 2)), end="cut")
    nothing = Sent(status=404)
    with (
        PlayingGateway(WHOLE, cut, Sent(status=busy), Sent(body=after(WHOLE, 2))) as one,
        PlayingGateway(WHOLE, nothing, nothing) as two,
    ):
        assert ask(one.url, others=(two.origin,)) == WHOLE
    assert [len(gateway.got) for gateway in (one, two)] == [3, 2]


def test_it_gives_up_after_as_many_tries_as_it_is_told(ask: Ask) -> None:
    sleeps = Sleeps()
    size = WHOLE.index(b"\n\n") + 2
    with (
        PlayingGateway(WHOLE, Sent(size=size, goodbye=True), Sent(status=503)) as gateway,
        pytest.raises(InterruptedStreamError, match="503: refused") as caught,
    ):
        ask(gateway.url, sleeps, patience=Patience(tries=5, first_wait=0.5, longest_wait=2.0))
    assert sleeps.seconds == [0.0, 0.5, 1.0, 2.0, 2.0]
    assert len(gateway.got) == 6
    assert caught.value.resume_token == TOKEN


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (event(4, chat("x")), "event 4 came after event 2"),
        (event(3, chat("x"), "req-9"), "another request came: 'req-9'"),
        (b"data: {}\n\n", "an event without a number came"),
        (event(1, chat("x")), "the connection ended before"),
    ],
    ids=["a gap", "another request", "no numbers", "from the beginning"],
)
def test_what_does_not_go_on_with_the_stream_never_reaches_the_caller(
    ask: Ask, wrong: bytes, why: str
) -> None:
    size = len(WHOLE) - len(after(WHOLE, 2))
    plan = (Sent(size=size, end="cut"), Sent(body=wrong), Sent())
    with PlayingGateway(WHOLE, *plan) as gateway:
        assert ask(gateway.url) == WHOLE
    with (
        PlayingGateway(WHOLE, *plan[:2]) as gateway,
        pytest.raises(InterruptedStreamError, match=why) as caught,
    ):
        ask(gateway.url)
    assert caught.value.received == WHOLE[:size]


def test_what_is_no_stream_of_ours_passes_untouched(ask: Ask) -> None:
    foreign = b"data: {}\r\n\r\ndata: [DONE]\r\n\r\n"
    with PlayingGateway(WHOLE, Sent(body=foreign)) as gateway:
        assert ask(gateway.url) == foreign
    with PlayingGateway(WHOLE, Sent(status=404)) as gateway:
        assert b"refused with 404" in ask(gateway.url)
    with (
        PlayingGateway(WHOLE, Sent(body=foreign, end="cut")) as gateway,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        ask(gateway.url)
    assert len(gateway.got) == 1


def test_an_origin_with_a_path_is_refused(ask: Ask) -> None:
    with pytest.raises(ValueError, match="is not an origin"):
        ask("http://127.0.0.1:1/", others=("http://gateway/v1",))


CUT = (Sent(size=400, end="cut"), Sent(size=250, end="reset"), Sent())


def test_an_openai_client_sees_one_stream() -> None:
    with (
        PlayingGateway(WHOLE, *CUT) as gateway,
        official(gateway.origin, ResumingTransport(sleep=Sleeps())) as client,
        streamed(client, ASKED) as stream,
    ):
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == TEXT
    assert len(gateway.got) == 3


def test_an_asynchronous_openai_client_sees_one_stream() -> None:
    async def text(origin: str) -> str:
        transport = AsyncResumingTransport(sleep=Sleeps().later)
        async with official_async(origin, transport) as client:
            stream = await streamed_async(client, ASKED)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    with PlayingGateway(WHOLE, *CUT) as gateway:
        assert asyncio.run(text(gateway.origin)) == TEXT
    assert len(gateway.got) == 3


def test_an_openai_client_without_the_transport_sees_an_error_and_no_false_end() -> None:
    with (
        PlayingGateway(WHOLE, Sent(size=400, goodbye=True)) as gateway,
        openai.OpenAI(base_url=f"{gateway.origin}/v1", api_key="k") as client,
        pytest.raises(openai.APIError, match="the answer was cut off"),
    ):
        list(streamed(client, ASKED))


def test_an_openai_client_that_gives_up_tells_why() -> None:
    with (
        PlayingGateway(WHOLE, Sent(size=400, end="cut"), Sent(status=410)) as gateway,
        official(gateway.origin, ResumingTransport(sleep=Sleeps())) as client,
        pytest.raises((openai.APIConnectionError, InterruptedStreamError)) as caught,
    ):
        list(streamed(client, ASKED))
    # openai 3 wraps it, openai 2 does not.
    assert isinstance(caught.value.__cause__ or caught.value, InterruptedStreamError)


def test_events_come_as_values() -> None:
    def text(said: list[object]) -> str:
        return "".join(json.loads(json.dumps(s))["choices"][0]["delta"]["content"] for s in said)

    async def later(url: str) -> list[object]:
        transport = AsyncResumingTransport(sleep=Sleeps().later)
        async with httpx.AsyncClient(transport=transport) as client:
            return [event async for event in aevents(client, url, ASKED)]

    with (
        PlayingGateway(WHOLE, *CUT) as gateway,
        httpx.Client(transport=ResumingTransport(sleep=Sleeps())) as client,
    ):
        assert text(list(events(client, gateway.url, ASKED))) == TEXT
        assert json.loads(gateway.got[0].body) == {**ASKED, "stream": True}
    with PlayingGateway(WHOLE, *CUT) as gateway:
        assert text(asyncio.run(later(gateway.url))) == TEXT
    with (
        PlayingGateway(WHOLE, Sent(status=404)) as gateway,
        httpx.Client(transport=ResumingTransport()) as client,
        pytest.raises(httpx.HTTPStatusError),
    ):
        list(events(client, gateway.url, ASKED))
