"""The one JSON body for a client that did not stream, put together from the stream."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.ask import Ask, Route
from gateway.frames import Event

Json = dict[str, Any]  # a decoded object, whose values are passed on and not looked into


@dataclass
class _Choice:
    """One choice, joined so far."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    role: str = "assistant"
    tool_calls: dict[int, Json] = field(default_factory=dict)
    logprobs: Json | None = None
    ids: list[int] = field(default_factory=list)
    prompt_ids: list[int] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


class Whole:
    """Takes the events of a Stream, in pieces of whole events; gives the body in the end.

    The body is what vLLM 0.32.0 answers to the request, but for what its streams do not tell:
    log probabilities of the prompt, routed experts, transfer parameters.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._parts: list[bytes] = []

    def add(self, out: bytes) -> None:
        """Take what would have gone to a client that streams."""
        self._parts.append(out)

    def body(self) -> bytes:
        """Return the answer; call it when the Stream is COMPLETE."""
        first: Json = {}
        last: Json = {}
        choices = {index: _Choice() for index in range(self._ask.choices)}
        for raw in b"".join(self._parts).split(b"\n\n"):
            data = Event.from_bytes(raw).data
            if data is None or data == b"[DONE]":
                continue
            frame: Json = json.loads(data)
            first = first or frame
            if not frame.get("choices"):
                last = frame
            for told in frame.get("choices") or ():
                _join(choices.setdefault(told.get("index", 0), _Choice()), frame, told)
        chat = self._ask.route is Route.CHAT
        made = self._chat(first, last, choices) if chat else self._completion(first, last, choices)
        return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode()

    def _chat(self, first: Json, last: Json, choices: Mapping[int, _Choice]) -> Json:
        return {
            **_named(first, "chat.completion"),
            "choices": [
                {
                    "index": index,
                    "message": _message(choice),
                    **self._common(choice),
                    "routed_experts": None,
                }
                for index, choice in sorted(choices.items())
            ],
            **_counted(last),
            "prompt_logprobs": None,
            "prompt_token_ids": choices[0].prompt_ids if self._ask.wants_ids else None,
            "prompt_text": first.get("prompt_text"),
            **_end(last),
        }

    def _completion(self, first: Json, last: Json, choices: Mapping[int, _Choice]) -> Json:
        return {
            **_named(first, "text_completion"),
            "choices": [
                {
                    "index": index,
                    "text": "".join(choice.text),
                    **self._common(choice),
                    "prompt_logprobs": None,
                    "prompt_token_ids": choice.prompt_ids if self._ask.wants_ids else None,
                    "routed_experts": None,
                }
                for index, choice in sorted(choices.items())
            ],
            **_counted(last),
            **_end(last),
        }

    def _common(self, choice: _Choice) -> Json:
        return {
            "logprobs": choice.logprobs,
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
            "token_ids": choice.ids if self._ask.wants_ids else None,
        }


def _join(choice: _Choice, frame: Json, told: Json) -> None:
    delta = told.get("delta") or {}
    choice.role = delta.get("role") or choice.role
    choice.text.append(delta.get("content") or told.get("text") or "")
    choice.reasoning.append(delta.get("reasoning") or "")
    for call in delta.get("tool_calls") or ():
        _join_call(choice.tool_calls.setdefault(call.get("index", 0), {}), call)
    prompt_ids = frame.get("prompt_token_ids") or told.get("prompt_token_ids")
    choice.prompt_ids = choice.prompt_ids or prompt_ids
    choice.ids += told.get("token_ids") or ()
    choice.finish_reason = told.get("finish_reason") or choice.finish_reason
    if told.get("stop_reason") is not None:
        choice.stop_reason = told["stop_reason"]
    if told.get("logprobs") is not None:
        choice.logprobs = choice.logprobs or {}
        for name, values in told["logprobs"].items():
            choice.logprobs.setdefault(name, []).extend(values or ())


def _join_call(call: Json, delta: Json) -> None:
    function = call.setdefault("function", {"name": "", "arguments": ""})
    more = delta.get("function") or {}
    function["name"] += more.get("name") or ""
    function["arguments"] += more.get("arguments") or ""
    for name in ("id", "type"):
        if delta.get(name):
            call[name] = delta[name]


def _message(choice: _Choice) -> Json:
    text, reasoning = "".join(choice.text), "".join(choice.reasoning)
    message: Json = {
        "role": choice.role,
        "content": text if text or not (reasoning or choice.tool_calls) else None,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
    }
    if choice.tool_calls:
        message["tool_calls"] = [call for _, call in sorted(choice.tool_calls.items())]
    return {**message, "reasoning": reasoning or None}


def _named(first: Json, kind: str) -> Json:
    return {
        "id": first.get("id"),
        "object": kind,
        "created": first.get("created"),
        "model": first.get("model"),
    }


def _counted(last: Json) -> Json:
    usage = last.get("usage") or {}
    details = ("prompt_tokens_details", "completion_tokens_details")
    return {
        "service_tier": None,
        "system_fingerprint": last.get("system_fingerprint"),
        "usage": {**usage, **{name: usage.get(name) for name in details}},
    }


def _end(last: Json) -> Json:
    return {
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": last.get("metrics"),
    }
