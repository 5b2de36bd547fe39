"""What a client of the OpenAI-compatible API asks for."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus

from demo.vllm.field import JsonObject, flag, integer, json_object, section, token_ids
from demo.vllm.refusal import Refusal, bad_request
from demo.vllm.request import Request
from demo.vllm.tokens import encode, known

# Would change the output, and is not simulated; with the values that change nothing.
UNSIMULATED: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "stop": ("", []),
    "echo": (False,),
    "logprobs": (False,),
    "prompt_logprobs": (),
    "tools": ([],),
    "response_format": ({"type": "text"},),
}


class Kind(StrEnum):
    """Which of the three APIs; the values are the paths."""

    COMPLETION = "/v1/completions"
    CHAT = "/v1/chat/completions"
    EMBEDDING = "/v1/embeddings"


@dataclass(frozen=True)
class Ask:
    """One request for generation, or for embeddings: then each prompt is one of them."""

    kind: Kind
    model: str
    prompts: tuple[tuple[int, ...], ...]
    max_tokens: int
    stop_token_ids: frozenset[int]
    stream: bool
    include_usage: bool
    continuous_usage: bool
    return_token_ids: bool

    @property
    def prompt(self) -> tuple[int, ...]:
        """The prompt of a generation."""
        return self.prompts[0]

    def requests(self, ids: str) -> tuple[Request, ...]:
        """What the engine has to do for it, under ids that start with ``ids``."""
        return tuple(
            Request(
                id=f"{ids}-{index}",
                prompt=prompt,
                max_tokens=self.max_tokens,
                stop_token_ids=self.stop_token_ids,
                pooling=self.kind is Kind.EMBEDDING,
            )
            for index, prompt in enumerate(self.prompts)
        )


def ask(kind: Kind, body: bytes, model: str, max_model_len: int) -> Ask:
    """Read a body for a server of ``model``; Refusal says what is wrong with it."""
    try:
        return _ask(kind, json_object(body), model, max_model_len)
    except ValueError as error:
        raise bad_request(str(error)) from None


def _ask(kind: Kind, body: JsonObject, model: str, max_model_len: int) -> Ask:
    wanted = body.get("model") or model
    if wanted != model:
        raise Refusal(
            HTTPStatus.NOT_FOUND,
            f"The model `{wanted}` does not exist.",
            "NotFoundError",
            "model",
        )
    for name, harmless in UNSIMULATED.items():
        if body.get(name) is not None and body[name] not in harmless:
            raise bad_request(f"{name}: this simulated server does not do that", name)
    prompts = _prompts(kind, body)
    for prompt in prompts:
        _check_ids(prompt)
    room = max_model_len - max(map(len, prompts))
    max_tokens = 0 if kind is Kind.EMBEDDING else _max_tokens(kind, body, room)
    if max_tokens > room or room < 0:
        raise bad_request(
            f"This model's maximum context length is {max_model_len} tokens. However, you"
            f" requested {max_tokens} output tokens and your prompt contains at least"
            f" {max_model_len - room} input tokens, for a total of at least"
            f" {max_model_len - room + max_tokens} tokens. Please reduce the length of the input"
            " prompt or the number of requested output tokens.",
            "input_tokens",
        )
    options = section(body, "stream_options")
    if options and not flag(body, "stream"):
        raise bad_request("Stream options can only be defined when `stream=True`.")
    return Ask(
        kind=kind,
        model=model,
        prompts=prompts,
        max_tokens=max_tokens,
        stop_token_ids=frozenset(token_ids(body.get("stop_token_ids")) or ()),
        stream=flag(body, "stream"),
        include_usage=flag(options, "include_usage"),
        continuous_usage=flag(options, "continuous_usage_stats"),
        return_token_ids=flag(body, "return_token_ids"),
    )


def _max_tokens(kind: Kind, body: JsonObject, room: int) -> int:
    if kind is Kind.COMPLETION:
        return integer(body, "max_tokens", 16, at_least=1)
    name = "max_completion_tokens"
    if body.get(name) is None:
        name = "max_tokens"
    return integer(body, name, max(room, 1), at_least=1)


def _prompts(kind: Kind, body: JsonObject) -> tuple[tuple[int, ...], ...]:
    if kind is Kind.CHAT:
        ids = token_ids(section(body, "kv_transfer_params").get("prompt_token_ids"))
        return (ids or encode(_conversation(body.get("messages"))),)
    name = "prompt" if kind is Kind.COMPLETION else "input"
    value = body.get(name)
    single = _prompt(value)
    if single is not None:
        return (single,)
    several = [_prompt(each) for each in value] if isinstance(value, list) else []
    prompts = tuple(each for each in several if each is not None)
    if not prompts or len(prompts) < len(several):
        raise bad_request(f"{name} must be text or token ids, and not empty", name)
    if kind is Kind.COMPLETION and len(prompts) > 1:
        raise bad_request(f"{name}: this simulated server takes one at a time", name)
    return prompts


def _prompt(value: object) -> tuple[int, ...] | None:
    return (encode(value) if isinstance(value, str) else token_ids(value)) or None


def _check_ids(prompt: tuple[int, ...]) -> None:
    unknown = next((token for token in prompt if not known(token)), None)
    if unknown is not None:
        raise bad_request(f"Token id {unknown} is out of vocabulary")


def _conversation(messages: object) -> str:
    """All messages as one text, in the manner of a chat template."""
    if not isinstance(messages, list) or not messages:
        raise bad_request("messages must be a list of messages, and not empty", "messages")
    turns = []
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise bad_request(f"messages[{index}] must be an object with a role", "messages")
        turns.append(f"<{message['role']}>{_content(message.get('content'))}\n")
    return "".join((*turns, "<assistant>"))


def _content(content: object) -> str:
    if isinstance(content, list):
        return "".join(
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return content if isinstance(content, str) else ""
