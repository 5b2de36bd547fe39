"""Whether an interrupted answer may go on elsewhere, told from the request alone."""

from collections.abc import Iterator, Mapping
from enum import StrEnum


class Resume(StrEnum):
    """What going on elsewhere gives, once the client has had its first byte.

    EXACT: the joined text is one valid generation, with temperature 0 the same one. BEST_EFFORT:
    still one valid text, but something counts anew from the cut, so another text than without it.
    NEVER: it would be wrong; the client is told.
    """

    EXACT = "exact"
    BEST_EFFORT = "best_effort"
    NEVER = "never"


def judged(body: Mapping[str, object], *, forbidden: bool) -> tuple[Resume, str]:
    """Return the class of a chat or completion request, and the reason when it is not EXACT."""
    if forbidden:
        return Resume.NEVER, "the client forbids it"
    for reason in _against(body):
        return Resume.NEVER, reason
    for reason in _doubts(body):
        return Resume.BEST_EFFORT, reason
    return Resume.EXACT, ""


def tools_may_be_called(body: Mapping[str, object]) -> bool:
    """Whether a tool parser reads the answer."""
    return bool(body.get("tools")) and body.get("tool_choice", "auto") not in ("none", None)


def has_media(messages: object) -> bool:
    """Whether a message has a part that is not text: vLLM then ignores given token ids."""
    return any(
        isinstance(part, Mapping) and part.get("type", "text") not in _TEXT_PARTS
        for message in (messages if isinstance(messages, list) else ())
        if isinstance(message, Mapping) and isinstance(content := message.get("content"), list)
        for part in content
    )


def prompts(body: Mapping[str, object]) -> int:
    """How many prompts a completion request has; a list of token ids is one."""
    prompt = body.get("prompt")
    return (
        len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1
    )


_TEXT_PARTS = frozenset(("text", "input_text", "output_text", "refusal", "thinking"))
_FORMATS_THAT_ARE_FREE = (None, "text")
_GRAMMARS = ("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar")


def _against(body: Mapping[str, object]) -> Iterator[str]:
    for name in ("n", "best_of"):
        if body.get(name) not in (None, 1):
            yield f"{name} is {body[name]}: several answers at once"
    if (number := prompts(body)) > 1:
        yield f"{number} prompts in one request"
    yield from _grammars(body)
    if tools_may_be_called(body):
        yield "tools: their parser holds text back, so text and tokens are not in step"
    for name in ("use_beam_search", "echo", "suffix", "prompt_embeds", "prompt_logprobs"):
        if body.get(name):
            yield f"{name} is asked for"
    if has_media(body.get("messages")):
        yield "a message has media: token ids do not stand for them"
    if body.get("kv_transfer_params") or body.get("ec_transfer_params"):
        yield "the request has transfer parameters of its own"


def _grammars(body: Mapping[str, object]) -> Iterator[str]:
    form, choice = body.get("response_format"), body.get("tool_choice")
    found = [name for name in _GRAMMARS if body.get(name) is not None]
    if isinstance(form, Mapping) and form.get("type") not in _FORMATS_THAT_ARE_FREE:
        found.append("response_format")
    if choice == "required" or isinstance(choice, Mapping):
        found.append("tool_choice")
    for name in found:
        yield f"{name}: the grammar would start at its root again"


def _doubts(body: Mapping[str, object]) -> Iterator[str]:
    if body.get("seed") is not None and body.get("temperature") != 0:
        yield "seed: its noise starts anew"
    for name, idle in _COUNTED_OVER_THE_OUTPUT.items():
        if body.get(name) not in (None, *idle):
            yield f"{name}: counts only what comes after the cut"


_COUNTED_OVER_THE_OUTPUT: Mapping[str, tuple[object, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "bad_words": ([],),
    "repetition_detection": (),
    "thinking_token_budget": (-1,),
    "watermarking": (False,),
    "vllm_xargs": ({},),
}
