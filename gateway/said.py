"""What one frame says, decoded: the slow way, taken by frames of no known shape."""

import json
from collections.abc import Mapping
from dataclasses import dataclass


class NotAFrameError(Exception):
    """The data is not what a server of OpenAI's interface sends."""


@dataclass(frozen=True)
class Choice:
    """One choice of a frame.

    ``prompt_ids`` and ``ids``: None where they are not told. ``speaks``: it has text of any kind:
    answer, reasoning or a tool call. ``opens``: it only says who speaks.
    """

    index: int
    text: str
    speaks: bool
    opens: bool
    reasons: bool
    calls_tool: bool
    empty: bool
    ids: list[int] | None
    prompt_ids: list[int] | None
    finish_reason: str | None
    has_logprobs: bool
    text_end: int | None  # of a completion's log probabilities, in characters

    @property
    def is_plain(self) -> bool:
        """Whether it has only text and token ids."""
        return not (self.has_logprobs or self.prompt_ids or self.reasons or self.calls_tool)


@dataclass(frozen=True)
class Said:
    """One frame: an error, choices, a usage, or something else, which has none of them."""

    error: str | None
    choices: tuple[Choice, ...] | None
    prompt_tokens: int | None
    completion_tokens: int | None

    @classmethod
    def decoded(cls, data: bytes) -> "Said":
        """Decode a frame's data. Raises NotAFrameError."""
        try:
            frame = json.loads(data)
        except (ValueError, RecursionError):
            raise NotAFrameError("a frame that is not JSON") from None
        if not isinstance(frame, dict):
            raise NotAFrameError("a frame that is not a JSON object")
        choices = frame.get("choices")
        usage = frame.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        return cls(
            error=_error(frame),
            choices=_choices(frame, choices) if isinstance(choices, list) else None,
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
        )


def _error(frame: Mapping[str, object]) -> str | None:
    error = frame.get("error")
    if isinstance(error, dict):
        return str(error.get("message", "an error frame"))
    if error is not None or frame.get("object") == "error":
        return str(error or frame.get("message", "an error frame"))
    return None


def _choices(frame: Mapping[str, object], choices: list[object]) -> tuple[Choice, ...]:
    if not all(isinstance(choice, dict) for choice in choices):
        raise NotAFrameError("a frame whose choices are not objects")
    return tuple(_choice(frame, choice) for choice in choices if isinstance(choice, dict))


def _choice(frame: Mapping[str, object], choice: dict[str, object]) -> Choice:
    delta = choice.get("delta")
    chat = isinstance(delta, dict)
    delta = delta if isinstance(delta, dict) else {}
    text = str((delta.get("content") if chat else choice.get("text")) or "")
    reasons = bool(delta.get("reasoning") or delta.get("reasoning_content"))
    calls_tool = bool(delta.get("tool_calls") or delta.get("function_call"))
    ids = _ids(choice.get("token_ids"))
    speaks = bool(text) or reasons or calls_tool
    finish = choice.get("finish_reason")
    index = choice.get("index")
    return Choice(
        index=index if isinstance(index, int) else 0,
        text=text,
        speaks=speaks,
        opens="role" in delta and not speaks and not ids and finish is None,
        reasons=reasons,
        calls_tool=calls_tool,
        empty=chat and not delta,
        ids=ids,
        prompt_ids=_ids(frame.get("prompt_token_ids")) or _ids(choice.get("prompt_token_ids")),
        finish_reason=None if finish is None else str(finish),
        has_logprobs=choice.get("logprobs") is not None,
        text_end=_text_end(choice.get("logprobs")),
    )


def _ids(ids: object) -> list[int] | None:
    return ids if isinstance(ids, list) and all(type(one) is int for one in ids) else None


def _text_end(logprobs: object) -> int | None:
    if not isinstance(logprobs, dict):
        return None
    offsets, tokens = logprobs.get("text_offset"), logprobs.get("tokens")
    return offsets[-1] + len(tokens[-1]) if offsets and tokens else None
