"""What a client gets, held against what a real vLLM gave a client that asked for just that."""

import json

import pytest

from gateway.ask import Never, later_body
from gateway.stream import State, Stream
from gateway.whole import Whole
from tests.gateway import recorded
from tests.gateway.recorded import Recorded

TOLD = ["usage", "bare", "ids", "everything"]
ONE = [
    name
    for kind in TOLD
    for name in recorded.named(f"*.{kind}")
    if not any(word in name for word in ("two", "prompts", "greedy", "tool-named"))
]
SEVERAL = [
    name
    for kind in TOLD
    for name in (*recorded.named(f"*-two.{kind}"), *recorded.named(f"*-prompts.{kind}"))
]
ENDS = recorded.named("end-*")


def client_view(request: Recorded, piece: int = 1 << 30) -> tuple[bytes, Stream]:
    stream = Stream(request.ask, "r", 1, recorded.learned())
    wide = request.wide.answer
    out = b"".join(stream.feed(wide[at : at + piece]).out for at in range(0, len(wide), piece))
    return out, stream


@pytest.mark.parametrize("name", ONE)
def test_a_client_gets_the_bytes_it_would_get_from_vllm(name: str) -> None:
    out, stream = client_view(Recorded(name))
    assert recorded.comparable(out) == recorded.comparable(Recorded(name).answer)
    assert stream.state is State.COMPLETE


@pytest.mark.parametrize("name", SEVERAL)
def test_each_of_several_answers_has_the_bytes_it_would_have(name: str) -> None:
    out, stream = client_view(Recorded(name))
    ours, theirs = recorded.by_choice(out), recorded.by_choice(Recorded(name).answer)
    assert ours.keys() == theirs.keys()
    for index, events in ours.items():
        # vLLM tells the prompt's ids with the first frame of any choice, and of each prompt.
        assert events == theirs[index]
    assert stream.state is State.COMPLETE


@pytest.mark.parametrize("name", ["chat-random.bare", "completion-random-stop.usage"])
@pytest.mark.parametrize("piece", [1, 7, 333])
def test_a_stream_in_pieces_gives_what_it_gives_whole(name: str, piece: int) -> None:
    assert client_view(Recorded(name), piece)[0] == client_view(Recorded(name))[0]


def test_the_first_stream_of_a_backend_learns_its_fingerprint_before_it_ends() -> None:
    request = Recorded("chat.bare")
    stream = Stream(request.ask, "r", 1)
    out = stream.feed(request.wide.answer).out
    assert recorded.FINGERPRINT in out
    assert recorded.comparable(out) == recorded.comparable(request.answer)


@pytest.mark.parametrize("name", recorded.named("*.whole"))
def test_the_body_of_an_unstreamed_answer_is_vllms(name: str) -> None:
    request = Recorded(name)
    if not request.ask.widened:
        assert "tool" in name  # relayed as it is
        return
    whole = Whole(request.ask)
    whole.add(client_view(request)[0])
    ours, theirs = json.loads(whole.body()), json.loads(request.answer)
    assert {**ours, "id": "", "created": 0} == {**theirs, "id": "", "created": 0}
    assert list(ours) == list(theirs)


@pytest.mark.parametrize("name", recorded.named("*-greedy.later-*"))
def test_a_real_continuation_joins_to_the_stream_without_a_cut(name: str) -> None:
    scene = name.rpartition(".")[0]
    leg, full = Recorded(name), Recorded(f"{scene}.everything")
    kept = leg.told["goes_on"]
    assert isinstance(kept, list)
    stream = Stream(full.ask, "r", 1, recorded.learned())
    out = b""
    for event in full.answer.split(b"\n\n"):
        out += stream.feed(event + b"\n\n").out
        if len(stream.delivered) >= len(kept):
            break
    assert stream.delivered == kept
    out += stream.ended().out
    body = stream.later()
    assert not isinstance(body, Never)
    assert json.loads(body) == leg.told["body"]
    stream.begin()
    out += stream.feed(leg.answer).out
    assert recorded.comparable(out) == recorded.comparable(full.answer)


@pytest.mark.parametrize("name", ENDS)
def test_a_real_end(name: str) -> None:
    request = Recorded(name)
    stream = Stream(request.ask, "r", 1)
    step = stream.feed(request.answer)
    after = stream.ended()
    if name == "end-sigterm-window-60.running":
        assert step.state is State.COMPLETE
        return
    assert after.state is State.INTERRUPTED, name
    out = step.out + after.out
    assert b"[DONE]" not in out
    assert b"error" not in out
    assert b"abort" not in out
    if stream.delivered:
        body = later_body(request.ask, stream.prompt_ids, stream.delivered)
        assert stream.later() == body
