"""How the streams of one leg end, and what a client is told then."""

import json
import re

import pytest

from gateway.ask import Never, Route, ask
from gateway.cut import Learned
from gateway.frames import LONGEST_EVENT
from gateway.resumable import Resume
from gateway.stream import State, Step, Stream
from tests.gateway.client import Client
from tests.gateway.model import Server, Vocabulary
from tests.gateway.recorded import Recorded

SERVER = Server(Vocabulary(), tuple(Vocabulary().encode(b"water")))
SAY = [{"role": "user", "content": "?"}]
ERROR = b'data: {"error": {"message": "EngineCore encountered an issue.", "code": 500}}\n\n'
DONE = b"data: [DONE]\n\n"


def stream(**more: object) -> Stream:
    body = {"model": "m", "messages": SAY, "stream": True, "max_tokens": 20, "temperature": 0}
    asked = ask(Route.CHAT, json.dumps(body | more).encode(), forbid_resume=False)
    return Stream(asked, "r", 1, Learned(fingerprint=b""))


def events(**more: object) -> list[bytes]:
    """A role frame, five letters, the end, usage, [DONE]."""
    body = stream(**more).later()
    assert isinstance(body, bytes)
    return SERVER.events(Route.CHAT, body)


def read(*steps: Step) -> Client:
    return Client().read(b"".join(step.out for step in steps))


def test_finish_usage_and_done_is_complete() -> None:
    one = stream()
    steps = [one.feed(event) for event in events()]
    assert [step.state for step in steps] == [State.RUNNING] * 6 + [State.FINISHED] * 2 + [
        State.COMPLETE
    ]
    assert read(*steps) == Client(
        "water", ["stop"], [None], {("one", 3, "m")}, 1, [], [*range(1, 9)], 1
    )
    assert one.finish_reason == "stop"
    assert one.later() == Never("the answer is complete")


@pytest.mark.parametrize("before", [0, 1, 3, 6])
def test_an_error_and_its_done_are_not_given_out(before: int) -> None:
    one = stream()
    sent = one.feed(b"".join(events()[:before])).out
    step = one.feed(ERROR + DONE)
    assert step == Step(b"", [], State.INTERRUPTED, progress=True, marks=[], details=[])
    assert one.why == "the backend says: EngineCore encountered an issue."
    assert b"error" not in sent
    assert one.feed(DONE).out == b""
    assert one.ended().out == b""


def test_an_error_after_the_end_does_not_undo_it() -> None:
    one = stream()
    step = one.feed(b"".join(events()[:7]) + ERROR + DONE)
    assert step.state is State.COMPLETE
    assert b"error" not in step.out
    assert read(step).done == 1


def test_abort_with_text_usage_and_done_is_an_interruption() -> None:
    one = stream()
    *first, last, usage, done = events()
    aborted = last.replace(b'"stop"', b'"abort"').replace(b'"content":""', b'"content":"LOST"')
    step = one.feed(b"".join(first) + aborted + usage + done)
    assert step.state is State.INTERRUPTED
    assert "abort" in one.why
    assert b"LOST" not in step.out
    assert b"[DONE]" not in step.out
    assert len(one.delivered) == 5


def test_usage_and_done_without_a_finish_is_an_interruption() -> None:
    one = stream(stream_options={"include_usage": True})
    step = one.feed(b"".join((*events()[:3], *events()[-2:])))
    assert step.state is State.INTERRUPTED
    assert read(step).usages == []


def test_the_end_of_the_file_is_an_interruption() -> None:
    one = stream()
    one.feed(b"".join(events()[:4]))
    step = one.ended()
    assert step.state is State.INTERRUPTED
    assert step.out == b""
    body = one.later()
    assert isinstance(body, bytes)
    assert json.loads(body)["max_tokens"] == 17
    assert (
        json.loads(body)["kv_transfer_params"]["prompt_token_ids"] == SERVER.prompt + one.delivered
    )


def test_half_a_frame_counts_for_nothing() -> None:
    one = stream()
    step = one.feed(b"".join(events()[:4]) + events()[4][:-1])
    assert len(step.ids) == 3
    assert one.ended().ids == []


@pytest.mark.parametrize("usage", [False, True])
def test_silence_after_a_finish_is_complete(usage: bool) -> None:
    more: dict[str, object] = {"stream_options": {"include_usage": True}} if usage else {}
    one, whole = stream(**more), stream(**more)
    steps = [one.feed(b"".join(events(**more)[:7])), one.ended()]
    assert steps[0].state is State.FINISHED
    assert steps[1].state is State.COMPLETE
    want = read(whole.feed(b"".join(events(**more))))
    assert read(*steps) == want
    assert len(want.usages) == usage


def test_comments_are_passed_on_and_are_no_progress() -> None:
    one = stream()
    step = one.feed(b": keep-alive\n\n")
    assert step == Step(b": keep-alive\n\n", [], State.RUNNING, marks=[], details=[])
    assert one.feed(events()[0]).progress
    assert not one.feed(events()[1][:20]).progress


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"n": 2}, "n is 2: several answers at once"),
        ({"response_format": {"type": "json_object"}}, "response_format: the grammar"),
        ({"tools": [{}], "tool_choice": "required"}, "tool_choice: the grammar"),
        ({"tools": [{}]}, "tools: their parser holds text back"),
        ({"echo": True, "logprobs": True}, "echo is asked for"),
    ],
)
def test_what_cannot_go_on_is_told_so_and_not_spliced(more: dict[str, object], why: str) -> None:
    one = stream(**more)
    one.feed(events()[0])
    first = one.later()
    assert isinstance(first, bytes), "only the role was said: all of it may be tried again"
    one.begin()
    one.feed(b"".join(events()[:3]))
    one.ended()
    told = one.later()
    assert isinstance(told, Never)
    assert told.why.startswith(why)
    last = one.goodbye({"type": "shutdown", "reason": told.why})
    assert re.fullmatch(rb'id: r\.4\ndata: \{"type":"shutdown".*\}\n\n', last)


def test_the_client_may_forbid_to_go_on() -> None:
    asked = ask(
        Route.CHAT,
        json.dumps({"model": "m", "messages": SAY, "stream": True, "max_tokens": 9}).encode(),
        forbid_resume=True,
    )
    one = Stream(asked, "r", 1)
    assert isinstance(one.later(), bytes)
    one.begin()
    one.feed(events()[0])
    assert one.later() == Never("the client forbids it")


def test_to_ask_for_the_next_leg_does_not_disturb_the_present_one() -> None:
    one, whole = stream(), stream()
    held = events()[1].replace(b'"w"', b'""')
    out = one.feed(events()[0] + held).out
    assert isinstance(one.later(), bytes)
    out += one.feed(b"".join(events()[2:])).out
    assert out == whole.feed(b"".join((events()[0], held, *events()[2:]))).out
    assert len(one.delivered) == 6


def test_the_last_usage_counts_and_never_the_sum() -> None:
    one = stream(stream_options={"include_usage": True})
    step = one.feed(b"".join(events()))
    prompt = len(SERVER.prompt)
    assert read(step).usages == [
        {"prompt_tokens": prompt, "total_tokens": prompt + 6, "completion_tokens": 6}
    ]
    assert (one.prompt_tokens, one.completion_tokens) == (prompt, 6)


@pytest.mark.parametrize("continuous", [False, True])
def test_the_prompt_is_charged_once_and_as_it_was_at_first(continuous: bool) -> None:
    options = {"include_usage": True, "continuous_usage_stats": continuous}
    one, whole = stream(stream_options=options), stream(stream_options=options)
    want = whole.feed(b"".join(events())).out
    out = one.feed(b"".join(events()[:4])).out
    body = one.later()
    assert isinstance(body, bytes)
    one.begin()
    out += one.feed(b"".join(SERVER.events(Route.CHAT, body))).out
    assert out == want
    assert (one.prompt_tokens, one.completion_tokens) == (len(SERVER.prompt), 6)


def test_a_backend_that_does_not_take_token_ids_is_found_out_before_it_says_anything() -> None:
    one = stream()
    one.feed(b"".join(events()[:4]))
    assert isinstance(one.later(), bytes)
    one.begin()
    step = one.feed(b"".join(events()))
    assert step == Step(b"", [], State.INTERRUPTED, progress=True, marks=[], details=[])
    assert one.later() == Never("the backend does not go on from token ids")


def test_nothing_left_of_the_budget_ends_with_length() -> None:
    one = stream(max_tokens=3, stream_options={"include_usage": True})
    step = one.feed(b"".join(events()[:4]))
    assert step.state is State.RUNNING
    client = read(step, one.ended())
    assert one.state is State.COMPLETE
    assert (client.text, client.finish_reasons, client.done) == ("wat", ["length"], 1)
    assert client.usages[0]["completion_tokens"] == 3


def test_a_tool_call_that_has_begun_does_not_go_on() -> None:
    one = stream()
    call = events()[2].replace(b'{"content":"a"}', b'{"tool_calls":[{"index":0,"id":"x"}]}')
    one.feed(b"".join(events()[:2]) + call)
    assert one.later() == Never("a tool call has begun")


def test_reasoning_goes_on_as_well_as_may_be() -> None:
    one = stream()
    thought = events()[1].replace(b"content", b"reasoning")
    out = one.feed(events()[0] + thought).out
    assert b'"delta":{"reasoning":"w"}' in out
    assert one.resume == (Resume.BEST_EFFORT, "a reasoning parser starts anew")
    assert isinstance(one.later(), bytes)


def test_a_backend_that_tells_no_ids_is_relayed_and_cannot_be_left() -> None:
    one = stream()
    hidden = re.sub(rb',"token_ids":\[\d+\]', b"", b"".join(events()[:4]))
    step = one.feed(hidden)
    assert read(step).text == "wat"
    assert one.completion_tokens == 3
    assert one.later() == Never("the backend does not tell the token ids of the answer")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (b"data: <html>\n\n", "a frame that is not JSON"),
        (b"data: [1]\n\n", "a frame that is not a JSON object"),
        (b'data: {"choices":[1]}\n\n', "a frame whose choices are not objects"),
        (b"data: " + b"x" * (LONGEST_EVENT + 1), f"an event is longer than {LONGEST_EVENT} bytes"),
    ],
)
def test_nonsense_is_an_interruption(wrong: bytes, why: str) -> None:
    one = stream()
    one.feed(b"".join(events()[:2]))
    step = one.feed(wrong)
    assert (step.state, step.out, one.why) == (State.INTERRUPTED, b"", why)


def test_an_answer_tried_again_before_its_first_byte_begins_from_nothing() -> None:
    one = stream()
    one.feed(ERROR)
    assert isinstance(one.later(), bytes)
    one.begin()
    step = one.feed(b"".join(events()))
    assert read(step).text == "water"
    assert read(step).numbers == [*range(1, 9)]


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_other_line_ends_and_lines_make_no_difference(end: bytes) -> None:
    one, plain = stream(), stream()
    lines = [b"retry: 10\nevent: message\n" + event for event in events()]
    out = one.feed(b"".join(lines).replace(b"\n", end)).out
    want = plain.feed(b"".join(events())).out
    assert out.replace(b"event: message\n", b"") == want


def test_an_event_of_another_kind_is_passed_on() -> None:
    one = stream()
    assert (
        one.feed(b'event: ping\ndata: {"a": 1}\n\n').out
        == b'id: r.1\nevent: ping\ndata: {"a": 1}\n\n'
    )


def test_marks_that_a_parser_drops_are_billed_with_the_text_that_follows() -> None:
    one = stream()
    mark = events()[1].replace(b'{"content":"w"}', b"{}")
    step = one.feed(events()[0] + mark)
    assert (read(step).numbers, step.ids) == ([1], [])
    step = one.feed(events()[2])
    assert len(step.ids) == 2
    assert re.findall(rb'"delta":(\{[^}]*\})', step.out) == [b'{"content":"a"}']


def test_a_leg_on_another_backend_learns_for_that_one() -> None:
    first, second = Learned(fingerprint=b""), Learned(fingerprint=b',"system_fingerprint":"w"')
    one = Stream(stream().ask, "r", 1, first)
    one.feed(b"".join(events()[:3]))
    body = one.later()
    assert isinstance(body, bytes)
    one.begin(second)
    step = one.feed(b"".join(SERVER.events(Route.CHAT, body)[:5]))
    assert b'"system_fingerprint":"w"' in step.out
    assert len(first.whole) == 2
    assert len(second.whole) == 3


def test_log_probabilities_go_on_where_they_were() -> None:
    """A leg's offsets count from its own beginning, the client's from the answer's."""
    full = Recorded("completion-logprobs.everything")
    frames = full.answer.split(b"\n\n")
    whole, one = Stream(full.ask, "r", 1), Stream(full.ask, "r", 1)
    out = b"".join(one.feed(frame + b"\n\n").out for frame in frames[:5])
    assert isinstance(one.later(), bytes)
    kept = len(one.delivered)
    assert kept == 5
    one.begin()
    begins = json.loads(frames[5][6:])["choices"][0]["logprobs"]["text_offset"][0]
    assert begins > 0
    prompt = json.dumps([*one.prompt_ids, *one.delivered]).encode()
    leg = [_as_a_leg(frame, kept, begins) for frame in frames[5:]]
    leg[0] = leg[0].replace(b'"prompt_token_ids":null', b'"prompt_token_ids":' + prompt)
    out += one.feed(b"\n\n".join(leg)).out
    assert out == whole.feed(full.answer).out


def _as_a_leg(frame: bytes, tokens: int, characters: int) -> bytes:
    changes = {
        rb'"completion_tokens":(\d+)': -tokens,
        rb'"prompt_tokens":(\d+)': tokens,
        rb'"text_offset":\[(\d+)': -characters,
    }
    for pattern, change in changes.items():
        if found := re.search(pattern, frame):
            number = b"%d" % (int(found[1]) + change)
            frame = frame[: found.start(1)] + number + frame[found.end(1) :]
    return frame


def spread(event: bytes) -> bytes:
    """The same event with blanks, and with its choices first."""
    data = event.removeprefix(b"data: ")
    if data == b"[DONE]\n\n":
        return event
    frame = json.loads(data)
    return b"data: " + json.dumps({"choices": frame["choices"]} | frame).encode() + b"\n\n"


@pytest.mark.parametrize("more", [{}, {"stop": ["te"]}])
def test_blanks_and_the_order_of_members_make_no_difference(more: dict[str, object]) -> None:
    one, other = stream(**more), stream(**more)
    compact = [one.feed(event) for event in events(**more)]
    blank = [other.feed(spread(event)) for event in events(**more)]
    assert read(*blank) == read(*compact)
    assert [step.ids for step in blank] == [step.ids for step in compact]
    assert not any(re.search(rb"token_ids\W+\d", step.out) for step in blank)
    cut = stream(**more)
    cut.feed(b"".join(map(spread, events(**more)[:3])))
    cut.ended()
    later = cut.later()
    assert isinstance(later, bytes)
    assert json.loads(later)["kv_transfer_params"]["prompt_token_ids"]
