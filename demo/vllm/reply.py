"""What goes back to the client: frames of a stream, or one body."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from demo.vllm.ask import Ask, Kind
from demo.vllm.request import FinishReason, Output
from demo.vllm.tokens import decode, fold

Json = dict[str, object]

DONE = b"data: [DONE]\n\n"
EMBEDDING_SIZE = 8
# On the last frame of a stream before [DONE].
FINGERPRINT: Json = {"system_fingerprint": "vllm-0.32.0-5eb96d00"}


def compact(value: object) -> bytes:
    """JSON as vLLM writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def frame(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + compact(value) + b"\n\n"


@dataclass(frozen=True)
class Reply:
    """The answer to one ask; ``created`` is wall clock seconds."""

    ask: Ask
    id: str
    created: int

    def frames(self, output: Output, completion_tokens: int) -> Iterator[bytes]:
        """What one output adds to a stream; ``completion_tokens`` includes it."""
        if output.token is None:
            return
        first = completion_tokens == 1
        if first and self.ask.kind is Kind.CHAT:
            yield self._opening()
        choice = self._piece(output, first=first)
        usage: Json = {}
        if self.ask.continuous_usage:
            usage = {"usage": self._usage(completion_tokens) | self._details()}
        last = output.finish is not None and not self.ask.include_usage
        yield self._frame([choice], usage | (FINGERPRINT if last else {}))

    def closing(self, completion_tokens: int) -> Iterator[bytes]:
        """The end of a stream that is complete."""
        if self.ask.include_usage:
            yield self._frame([], {"usage": self._usage(completion_tokens)} | FINGERPRINT)
        yield DONE

    def whole(self, outputs: Sequence[Output]) -> Json:
        """All of a generation at once."""
        ids = [output.token for output in outputs if output.token is not None]
        finish = outputs[-1].finish
        text = _text(ids, finish)
        chat = self.ask.kind is Kind.CHAT
        message = {"role": "assistant", "content": text}
        choice = self._choice({"message": message} if chat else {"text": text}, ids, finish)
        body = self._envelope("chat.completion" if chat else "text_completion")
        if self.ask.return_token_ids:
            (body if chat else choice)["prompt_token_ids"] = list(self.ask.prompt)
        return body | {"choices": [choice], "usage": self._usage(len(ids))}

    def embeddings(self) -> Json:
        """A vector per prompt; it depends on the prompt only."""
        tokens = sum(map(len, self.ask.prompts))
        return self._envelope("list") | {
            "data": [
                {"index": index, "object": "embedding", "embedding": _vector(prompt)}
                for index, prompt in enumerate(self.ask.prompts)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0},
        }

    def _opening(self) -> bytes:
        delta = {"role": "assistant", "content": ""}
        choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        usage: Json = {}
        if self.ask.continuous_usage:
            usage = {"usage": self._usage(0) | self._details()}
        ids = list(self.ask.prompt) if self.ask.return_token_ids else None
        return self._frame([choice], usage | {"prompt_token_ids": ids, "prompt_text": None})

    def _piece(self, output: Output, *, first: bool) -> Json:
        """One token as a choice, with its members in the order in which vLLM 0.32.0 has them."""
        ids = [] if output.token is None else [output.token]
        text = _text(ids, output.finish)
        chat = self.ask.kind is Kind.CHAT
        said: Json = {"delta": {"content": text}} if chat else {"text": text}
        choice = self._choice(said, ids, output.finish)
        token_ids = choice.pop("token_ids")
        if chat and output.finish is None:
            del choice["stop_reason"]
        if not chat:
            prompt = list(self.ask.prompt) if first and self.ask.return_token_ids else None
            choice["prompt_token_ids"] = prompt
        return choice | {"token_ids": token_ids}

    def _details(self) -> Json:
        return {"completion_tokens_details": None} if self.ask.kind is Kind.CHAT else {}

    def _choice(self, content: Json, ids: list[int], finish: FinishReason | None) -> Json:
        # The id that ended it, and only where an id did.
        stop = ids[-1] if finish is FinishReason.STOP else None
        return {
            "index": 0,
            **content,
            "logprobs": None,
            "finish_reason": finish,
            "stop_reason": stop,
            "token_ids": ids if self.ask.return_token_ids else None,
        }

    def _frame(self, choices: list[Json], more: Json) -> bytes:
        chat = self.ask.kind is Kind.CHAT
        envelope = self._envelope("chat.completion.chunk" if chat else "text_completion")
        return frame(envelope | {"choices": choices} | more)

    def _envelope(self, kind: str) -> Json:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.ask.model}

    def _usage(self, completion_tokens: int) -> Json:
        prompt_tokens = len(self.ask.prompt)
        return {
            "prompt_tokens": prompt_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
            "completion_tokens": completion_tokens,
        }


def _text(ids: list[int], finish: FinishReason | None) -> str:
    """The text of these ids without the one that was asked to end it, as vLLM leaves it out."""
    return decode(ids[:-1] if finish is FinishReason.STOP else ids)


def _vector(prompt: tuple[int, ...]) -> list[float]:
    digests = (fold((index,) * 4, fold(prompt)) for index in range(EMBEDDING_SIZE))
    return [(digest >> 40) / (1 << 24) for digest in digests]
