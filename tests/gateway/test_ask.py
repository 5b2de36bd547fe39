"""What a client asked for, and what goes to a backend because of it."""

import json

import pytest

from gateway.ask import Ask, AskError, Never, Route, ask, first_body, later_body
from gateway.resumable import Resume

SAY = [{"role": "user", "content": "?"}]


def chat(**more: object) -> Ask:
    body = {"model": "m", "messages": SAY, "stream": True, **more}
    return ask(Route.CHAT, json.dumps(body).encode(), forbid_resume=False)


def completion(**more: object) -> Ask:
    body = {"model": "m", "prompt": "once", "stream": True, **more}
    return ask(Route.COMPLETIONS, json.dumps(body).encode(), forbid_resume=False)


def later(asked: Ask, delivered: int) -> dict[str, object]:
    body = later_body(asked, [1, 2], [7] * delivered)
    assert isinstance(body, bytes)
    told: dict[str, object] = json.loads(body)
    return told


@pytest.mark.parametrize(
    ("body", "why", "param"),
    [
        (b"{", "the body is not JSON: Expecting property name", None),
        (b"\xff", "the body is not JSON: 'utf-8' codec", None),
        (b"[" * 100_000, "the body is not JSON: ", None),
        (b"[]", "the body must be a JSON object, not a list", None),
        (b'{"model": 1}', "model must be a string, not a number", "model"),
        (b'{"stream": "yes"}', "stream must be true or false, not a string", "stream"),
        (
            b'{"stream": true, "stream_options": 1}',
            "stream_options must be an object, not a number",
            "stream_options",
        ),
        (
            b'{"stream_options": {}}',
            "stream_options can only be given with stream",
            "stream_options",
        ),
        (
            b'{"stream": true, "stream_options": {"include_usage": 1}}',
            "stream_options.include_usage must be true or false, not a number",
            "stream_options.include_usage",
        ),
        (b'{"n": 0}', "n must be at least 1, not 0", "n"),
        (b'{"n": true}', "n must be a whole number, not true or false", "n"),
        (b'{"max_tokens": "9"}', "max_tokens must be a whole number, not a string", "max_tokens"),
        (b'{"max_tokens": 1.5}', "max_tokens must be a whole number, not 1.5", "max_tokens"),
        (
            b'{"max_tokens": 1e999}',
            "max_tokens must be a whole number, not one that is too large",
            "max_tokens",
        ),
        (b'{"n": NaN}', "n must be a whole number, not NaN", "n"),
        (b'{"stop": [1]}', "stop must be a string or a list of strings, not a list", "stop"),
        (b'{"stop": {}}', "stop must be a string or a list of strings, not an object", "stop"),
        (b'{"stop": ["a", ""]}', "stop must not hold an empty string", "stop"),
    ],
)
def test_a_request_that_cannot_be_used_is_told_why(
    body: bytes, why: str, param: str | None
) -> None:
    with pytest.raises(AskError) as error:
        ask(Route.CHAT, body, forbid_resume=False)
    assert error.value.why.startswith(why)
    assert error.value.param == param


def test_upstream_is_asked_for_everything_but_stop_strings() -> None:
    asked = chat(stop="x", include_stop_str_in_output=True, top_p=0.5, text="\ud800")
    assert json.loads(first_body(asked)) == {
        "model": "m",
        "messages": SAY,
        "stream": True,
        "top_p": 0.5,
        "text": "\ud800",
        "return_token_ids": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    assert asked.stop == ("x",)
    assert asked.include_stop


def test_upstream_searches_stop_strings_where_nothing_can_go_on() -> None:
    asked = chat(stop=["x"], n=2)
    assert asked.stop == ()
    assert json.loads(first_body(asked))["stop"] == ["x"]


def test_an_echo_is_asked_for_without_ids_since_it_has_no_text_with_them() -> None:
    assert "return_token_ids" not in json.loads(first_body(completion(echo=True)))


@pytest.mark.parametrize(
    "more",
    [
        {"prompt_logprobs": 1},
        {"use_beam_search": True},
        {"kv_transfer_params": {"a": 1}},
        {"tools": [{}]},
    ],
)
def test_what_has_no_faithful_stream_goes_out_unstreamed_as_it_is(more: dict[str, object]) -> None:
    asked = chat(stream=False, **more)
    assert not asked.widened
    assert json.loads(first_body(asked)) == asked.body


@pytest.mark.parametrize("route", [Route.EMBEDDINGS, Route.RESPONSES])
def test_other_routes_are_relayed_as_they_are(route: Route) -> None:
    asked = ask(
        route, b'{"model": "m", "input": "x", "stop": 1, "stream": true}', forbid_resume=False
    )
    assert (asked.widened, asked.stream, asked.model) == (False, True, "m")
    assert json.loads(first_body(asked)) == asked.body
    assert later_body(asked, [1], []) == Never(f"{route} is relayed as it is")


@pytest.mark.parametrize(
    ("more", "resume", "why"),
    [
        ({}, Resume.EXACT, ""),
        ({"seed": 1, "temperature": 0}, Resume.EXACT, ""),
        ({"seed": 1}, Resume.BEST_EFFORT, "seed: its noise starts anew"),
        ({"logprobs": True}, Resume.EXACT, ""),
        ({"response_format": {"type": "text"}}, Resume.EXACT, ""),
        ({"tools": [{}], "tool_choice": "none"}, Resume.EXACT, ""),
        ({"n": 1, "best_of": 1, "echo": False, "presence_penalty": 0.0}, Resume.EXACT, ""),
        (
            {"frequency_penalty": 0.1},
            Resume.BEST_EFFORT,
            "frequency_penalty: counts only what comes after the cut",
        ),
        (
            {"bad_words": ["a"]},
            Resume.BEST_EFFORT,
            "bad_words: counts only what comes after the cut",
        ),
        ({"n": 2}, Resume.NEVER, "n is 2: several answers at once"),
        ({"best_of": 3}, Resume.NEVER, "best_of is 3: several answers at once"),
        (
            {"structured_outputs": {"regex": "a"}},
            Resume.NEVER,
            "structured_outputs: the grammar would start at its root again",
        ),
        (
            {"guided_json": {}},
            Resume.NEVER,
            "guided_json: the grammar would start at its root again",
        ),
        (
            {"tools": [{}], "tool_choice": {"type": "function"}},
            Resume.NEVER,
            "tool_choice: the grammar would start at its root again",
        ),
        ({"use_beam_search": True}, Resume.NEVER, "use_beam_search is asked for"),
        ({"prompt_logprobs": 1}, Resume.NEVER, "prompt_logprobs is asked for"),
        (
            {"kv_transfer_params": {"a": 1}},
            Resume.NEVER,
            "the request has transfer parameters of its own",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}, {"type": "image_url"}]}]},
            Resume.NEVER,
            "a message has media: token ids do not stand for them",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, Resume.EXACT, ""),
    ],
)
def test_the_class_of_a_chat_request(more: dict[str, object], resume: Resume, why: str) -> None:
    asked = chat(**more)
    assert (asked.resume, asked.resume_why) == (resume, why)


@pytest.mark.parametrize(
    ("prompt", "choices"),
    [("a", 1), ([1, 2], 1), (["a"], 1), (["a", "b"], 2), ([[1], [2]], 2), ([], 1)],
)
def test_a_list_of_ids_is_one_prompt_and_a_list_of_prompts_is_several(
    prompt: object, choices: int
) -> None:
    asked = completion(prompt=prompt)
    assert asked.choices == choices
    assert (asked.resume is Resume.NEVER) is (choices > 1)


@pytest.mark.parametrize(
    ("asked", "limits"),
    [
        (completion(), {"max_tokens": 6}),
        (completion(max_tokens=None), {"max_tokens": None}),
        (completion(max_tokens=30, min_tokens=25), {"max_tokens": 20, "min_tokens": 15}),
        (completion(max_tokens=30, min_tokens=5), {"max_tokens": 20, "min_tokens": 0}),
        (chat(), {}),
        (
            chat(max_tokens=12.0, max_completion_tokens=11),
            {"max_tokens": 2, "max_completion_tokens": 1},
        ),
    ],
)
def test_budgets_are_less_by_what_was_delivered(asked: Ask, limits: dict[str, object]) -> None:
    body = later(asked, 10)
    assert {name: body[name] for name in body if "_tokens" in name} == limits


def test_nothing_left_of_the_budget_is_no_reason_to_ask() -> None:
    assert later_body(completion(max_tokens=3), [1], [7, 7, 7]) == Never(
        "nothing is left of max_tokens"
    )


def test_a_backend_that_did_not_tell_the_prompt_cannot_be_left() -> None:
    assert isinstance(later_body(chat(), [], [7]), Never)


def test_completions_go_on_from_ids_as_their_prompt() -> None:
    body = later(completion(request_id="x", truncate_prompt_tokens=5, ignore_eos=True), 2)
    assert body["prompt"] == [1, 2, 7, 7]
    assert body["ignore_eos"] is True
    assert not {"request_id", "truncate_prompt_tokens"} & body.keys()


def test_chats_go_on_from_ids_beside_their_messages() -> None:
    body = later(chat(), 1)
    assert body["messages"] == SAY
    assert body["kv_transfer_params"] == {"prompt_token_ids": [1, 2, 7]}
