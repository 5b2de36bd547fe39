"""The joined body, where no recording shows it: reasoning, tool calls, another leg's usage."""

import json

from gateway.ask import Ask, Route, ask
from gateway.whole import Whole

WHO = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def asked(**more: object) -> Ask:
    body = {"model": "m", "messages": [], **more}
    return ask(Route.CHAT, json.dumps(body).encode(), forbid_resume=False)


def joined(*deltas: dict[str, object], asking: Ask | None = None) -> dict[str, object]:
    whole = Whole(asking or asked())
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None, "token_ids": [1]}
        whole.add(f"id: r.1\ndata: {json.dumps({**WHO, 'choices': [choice]})}\n\n".encode())
    whole.add(b": comment\n\ndata: [DONE]\n\n")
    body: dict[str, object] = json.loads(whole.body())
    return body


def message(*deltas: dict[str, object]) -> dict[str, object]:
    choices = joined(*deltas)["choices"]
    assert isinstance(choices, list)
    said: dict[str, object] = choices[0]["message"]
    return said


def test_reasoning_and_text_are_joined_each_for_itself() -> None:
    said = message(
        {"role": "assistant", "content": ""},
        {"reasoning": "th"},
        {"reasoning": "ink"},
        {"content": "so"},
    )
    assert (said["role"], said["content"], said["reasoning"]) == ("assistant", "so", "think")


def test_only_reasoning_has_no_content() -> None:
    assert message({"reasoning": "x"})["content"] is None
    assert message({"content": ""})["content"] == ""


def test_tool_calls_are_joined_by_their_index() -> None:
    said = message(
        {
            "tool_calls": [
                {"index": 0, "id": "c", "type": "function", "function": {"name": "watch"}}
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 1, "id": "d"}, {"index": 0, "function": {"arguments": ":1}"}}]},
    )
    assert said["tool_calls"] == [
        {"function": {"name": "watch", "arguments": '{"a":1}'}, "id": "c", "type": "function"},
        {"function": {"name": "", "arguments": ""}, "id": "d"},
    ]
    assert said["content"] is None


def test_ids_are_joined_for_who_asked_for_them() -> None:
    for asking, ids in ((asked(), None), (asked(return_token_ids=True), [1, 1])):
        choices = joined({"content": "a"}, {"content": "b"}, asking=asking)["choices"]
        assert isinstance(choices, list)
        assert choices[0]["token_ids"] == ids
