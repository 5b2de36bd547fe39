"""What a client asked for, parsed once, and the bodies that go to backends because of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isinf

from gateway.resumable import Resume, judged, prompts, tools_may_be_called


class Route(StrEnum):
    """The paths whose bodies are read."""

    CHAT = "/v1/chat/completions"
    COMPLETIONS = "/v1/completions"
    RESPONSES = "/v1/responses"
    EMBEDDINGS = "/v1/embeddings"


ROUTES = frozenset(Route)


class AskError(Exception):
    """The request cannot be used: ``why`` is one sentence, ``param`` the field, if it is one."""

    def __init__(self, why: str, param: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.param = param


@dataclass(frozen=True)
class Never:
    """Going on elsewhere is not possible, with the reason."""

    why: str


@dataclass(frozen=True)
class Ask:
    """One request. ``body`` is as sent.

    ``widened``: the backend is asked for more than the client asked for, always as a stream. If
    not, the body goes out as it came and the answer comes back as it is, counted by its usage.
    ``stop``: the stop strings that are searched here; empty where the backend searches them,
    which is where nothing can go on elsewhere. ``max_tokens``: None is up to the model's length.
    ``choices``: how many answers there will be. ``forbidden``: the client wants no going on.
    """

    route: Route
    model: str
    stream: bool
    body: Mapping[str, object]
    wants_usage: bool
    wants_continuous_usage: bool
    wants_ids: bool
    stop: tuple[str, ...]
    resume: Resume
    resume_why: str
    max_tokens: int | None
    min_tokens: int = 0
    choices: int = 1
    include_stop: bool = False
    widened: bool = True
    forbidden: bool = False


COMPLETION_TOKENS_IF_NOT_SAID = 16  # vLLM's CompletionRequest.max_tokens
_LIMITS = ("max_tokens", "max_completion_tokens")
# These have no streamed form in vLLM, or one that leaves part of the answer out; and its parsers
# of tools find other calls in a stream than in the whole text.
_ONLY_WHOLE = ("prompt_logprobs", "use_beam_search", "kv_transfer_params", "ec_transfer_params")


def ask(route: Route, body: bytes, *, forbid_resume: bool) -> Ask:
    """Parse a request. Raises AskError with what is wrong with it."""
    sent = _object(body)
    model = sent.get("model")
    if model is not None and not isinstance(model, str):
        raise AskError(f"model must be a string, not {_named(model)}", "model")
    stream = _flag(sent, "stream")
    if route not in (Route.CHAT, Route.COMPLETIONS):
        why = f"{route} is relayed as it is"
        return _unread(route, model or "", sent, stream=stream, why=why)
    options = _options(sent, stream=stream)
    stop = _stop(sent)
    n = _number(sent, "n")
    if n is not None and n < 1:
        raise AskError(f"n must be at least 1, not {n}", "n")
    resume, why = judged(sent, forbidden=forbid_resume)
    usage = _flag(options, "include_usage", "stream_options.")
    continuous = _flag(options, "continuous_usage_stats", "stream_options.")
    return Ask(
        route=route,
        model=model or "",
        stream=stream,
        body=sent,
        wants_usage=usage or not stream,
        wants_continuous_usage=usage and continuous,
        wants_ids=_flag(sent, "return_token_ids"),
        stop=() if resume is Resume.NEVER else stop,
        resume=resume,
        resume_why=why,
        max_tokens=_limit(route, sent),
        min_tokens=_number(sent, "min_tokens") or 0,
        choices=(n or 1) * prompts(sent),
        include_stop=_flag(sent, "include_stop_str_in_output"),
        widened=stream or not (tools_may_be_called(sent) or any(map(sent.get, _ONLY_WHOLE))),
        forbidden=forbid_resume,
    )


def named(route: Route | None, body: bytes) -> str | None:
    """The model that a body names that is relayed as it is, where it is JSON and names one.

    Raises AskError where it asks for what could not be billed.
    """
    try:
        sent = json.loads(body) if body else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(sent, dict):
        return None
    if route is Route.RESPONSES and sent.get("background"):
        why = "background must be false: an answer that is fetched later could not be billed"
        raise AskError(why, "background")
    model = sent.get("model")
    return model if isinstance(model, str) else None


def first_body(ask: Ask) -> bytes:
    """Return what a backend is asked for at first."""
    return _encoded(_widened(ask) if ask.widened else ask.body)


def later_body(ask: Ask, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bytes | Never:
    """Return what another backend is asked for, to go on after ``output_ids``.

    ``prompt_ids`` and ``output_ids`` are those of the whole answer so far, over all legs.
    """
    if ask.resume is Resume.NEVER:
        return Never(ask.resume_why)
    if not prompt_ids:
        return Never("the backend did not tell the token ids of the prompt")
    body = _widened(ask)
    body.pop("request_id", None)
    body.pop("truncate_prompt_tokens", None)
    ids = [*prompt_ids, *output_ids]
    if ask.route is Route.CHAT:
        body["kv_transfer_params"] = {"prompt_token_ids": ids}
    else:
        body["prompt"] = ids
        body.setdefault("max_tokens", COMPLETION_TOKENS_IF_NOT_SAID)
    for name in _LIMITS:
        if (limit := _number(body, name)) is not None:
            if limit <= len(output_ids):
                return Never("nothing is left of max_tokens")
            body[name] = limit - len(output_ids)
    if ask.min_tokens:
        body["min_tokens"] = max(0, ask.min_tokens - len(output_ids))
    return _encoded(body)


def _widened(ask: Ask) -> dict[str, object]:
    body = dict(ask.body)
    body["stream"] = True
    body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if not body.get("echo"):  # vLLM gives out the prompt as ids then, and no longer as text
        body["return_token_ids"] = True
    if ask.resume is not Resume.NEVER:
        body.pop("stop", None)
        body.pop("include_stop_str_in_output", None)
    return body


def _unread(route: Route, model: str, body: Mapping[str, object], *, stream: bool, why: str) -> Ask:
    return Ask(
        route=route,
        model=model,
        stream=stream,
        body=body,
        wants_usage=True,
        wants_continuous_usage=False,
        wants_ids=False,
        stop=(),
        resume=Resume.NEVER,
        resume_why=why,
        max_tokens=None,
        widened=False,
    )


def _encoded(body: Mapping[str, object]) -> bytes:
    # Escaped to ASCII, so that what no UTF-8 can hold (half a surrogate pair) goes through.
    return json.dumps(body, separators=(",", ":")).encode()


def _object(body: bytes) -> Mapping[str, object]:
    try:
        sent = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise AskError(f"the body is not JSON: {error}") from None
    if not isinstance(sent, dict):
        raise AskError(f"the body must be a JSON object, not {_named(sent)}")
    return sent


def _options(sent: Mapping[str, object], *, stream: bool) -> Mapping[str, object]:
    options = sent.get("stream_options")
    if options is None:
        return {}
    if not isinstance(options, dict):
        why = f"stream_options must be an object, not {_named(options)}"
        raise AskError(why, "stream_options")
    if not stream:
        raise AskError("stream_options can only be given with stream", "stream_options")
    return options


def _stop(sent: Mapping[str, object]) -> tuple[str, ...]:
    stop = sent.get("stop")
    found = [stop] if isinstance(stop, str) else [] if stop is None else stop
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise AskError(f"stop must be a string or a list of strings, not {_named(stop)}", "stop")
    if not all(found):
        raise AskError("stop must not hold an empty string", "stop")
    return tuple(found)


def _limit(route: Route, sent: Mapping[str, object]) -> int | None:
    if route is Route.CHAT and (chat := _number(sent, "max_completion_tokens")) is not None:
        return chat
    if route is Route.COMPLETIONS and "max_tokens" not in sent:
        return COMPLETION_TOKENS_IF_NOT_SAID
    return _number(sent, "max_tokens")


def _number(sent: Mapping[str, object], name: str) -> int | None:
    number = sent.get(name)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
        said = _told(number) if isinstance(number, float) else _named(number)
        raise AskError(f"{name} must be a whole number, not {said}", name)
    return number


def _told(number: float) -> str:
    """A number that is not whole; what is too large for one (1e999) is read as infinite."""
    return "one that is too large" if isinf(number) else str(number).replace("nan", "NaN")


def _flag(sent: Mapping[str, object], name: str, where: str = "") -> bool:
    flag = sent.get(name)
    if flag is not None and not isinstance(flag, bool):
        raise AskError(f"{where}{name} must be true or false, not {_named(flag)}", where + name)
    return bool(flag)


_NAMES = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}


def _named(value: object) -> str:
    if value is None:
        return "null"
    return _NAMES.get(type(value), "a number")
