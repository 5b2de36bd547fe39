"""A model that is known by heart, behind a server that speaks like vLLM 0.32.0.

Tokens are bytes, some of them parts of characters or of several. What comes next follows from all
tokens so far: after a beginning that is not the script's comes garbage. The text comes from a
decoder like the one vLLM uses (tokenizers' DecodeStream): it gives out nothing while the text ends
in an unfinished character, and when the prompt itself ends in one, it gives out the whole prompt.
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gateway.ask import Route

END, HIDDEN, GARBAGE = 0, 1, 2  # tokens without text, and one that must never be seen
LETTERS = 3  # the token of byte b is LETTERS + b; longer ones follow
UNFINISHED = "\N{REPLACEMENT CHARACTER}"
SECRET = "You are SECRET."


def chunked(data: bytes) -> bytes:
    """As HTTP/1.1 frames it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def unchunked(chunk: bytes) -> bytes:
    """What one chunk holds, which is all there is."""
    size, _, rest = chunk.partition(b"\r\n")
    data = rest.removesuffix(b"\r\n")
    assert chunk == chunked(data), size
    return data


@dataclass(frozen=True)
class Vocabulary:
    """The tokens longer than a byte."""

    longer: tuple[bytes, ...] = ()

    def piece(self, token: int) -> bytes:
        if token in (END, HIDDEN):
            return b""
        if token == GARBAGE:
            return b"#GARBAGE#"
        number = token - LETTERS
        return bytes((number,)) if number < 256 else self.longer[number - 256]

    def decode(self, tokens: Iterable[int]) -> str:
        return b"".join(map(self.piece, tokens)).decode("utf-8", "replace")

    def encode(self, text: bytes) -> list[int]:
        """Return the longest tokens first."""
        pieces = sorted(enumerate(self.longer, 256), key=lambda pair: -len(pair[1]))
        tokens = []
        while text:
            number, size = next(
                ((n, len(p)) for n, p in pieces if text.startswith(p)), (text[0], 1)
            )
            tokens.append(LETTERS + number)
            text = text[size:]
        return tokens


class Decoder:
    """tokenizers' DecodeStream, version 0.22."""

    def __init__(self, vocabulary: Vocabulary, prompt: Sequence[int]) -> None:
        self._vocabulary = vocabulary
        self._ids = list(prompt)
        self._prefix = ""
        self._prefix_index = 0

    def step(self, token: int) -> str:
        if not self._prefix and self._ids:
            prefix = self._vocabulary.decode(self._ids)
            if not prefix.endswith(UNFINISHED):
                self._prefix, self._prefix_index = prefix, len(self._ids)
        self._ids.append(token)
        text = self._vocabulary.decode(self._ids)
        if len(text) <= len(self._prefix) or text.endswith(UNFINISHED):
            return ""
        new = text[len(self._prefix) :]
        index = len(self._ids) - self._prefix_index
        self._ids = self._ids[self._prefix_index :]
        self._prefix = self._vocabulary.decode(self._ids)
        self._prefix_index = index
        return new


@dataclass(frozen=True)
class Server:
    """Serves one script. ``per_frame``: how many tokens the frames have, over and over."""

    vocabulary: Vocabulary
    script: tuple[int, ...]
    per_frame: tuple[int, ...] = (1,)
    name: str = "one"

    @property
    def prompt(self) -> list[int]:
        return self.vocabulary.encode(SECRET.encode())

    def tokens(self, given: Sequence[int], limit: int) -> tuple[list[int], str]:
        """Return what comes after these tokens, and why it ends."""
        generated: list[int] = []
        while len(generated) < limit:
            so_far = [*given, *generated][len(self.prompt) :]
            known = list(self.script[: len(so_far)]) == so_far
            known = known and list(given[: len(self.prompt)]) == self.prompt
            token = self.script[len(so_far)] if known and len(so_far) < len(self.script) else None
            generated.append(GARBAGE if not known else END if token is None else token)
            if generated[-1] == END:
                return generated, "stop"
        return generated, "length"

    def text(self, limit: int) -> str:
        """Return what one who is never interrupted gets to read."""
        return self.read(self.tokens(self.prompt, limit)[0])

    def read(self, tokens: Sequence[int]) -> str:
        """Return the text that the decoder gives out for these tokens."""
        decoder = Decoder(self.vocabulary, self.prompt)
        return "".join(map(decoder.step, tokens))

    def events(self, route: Route, body: bytes) -> list[bytes]:
        """Return the answer to a body of the gateway's, in vLLM's form."""
        return list(self._events(route is Route.CHAT, json.loads(body)))

    def _events(self, chat: bool, body: dict[str, object]) -> Iterator[bytes]:
        assert body["stream"] is True
        assert body["return_token_ids"] is True
        assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
        assert "stop" not in body
        transfer = body.get("kv_transfer_params")
        given = transfer["prompt_token_ids"] if isinstance(transfer, dict) else body.get("prompt")
        given = given if isinstance(given, list) else self.prompt
        limit = body["max_tokens"]
        assert isinstance(limit, int)
        tokens, end = self.tokens(given, limit)
        kind = "chat.completion.chunk" if chat else "text_completion"
        who = f'{{"id":"{self.name}","object":"{kind}","created":{len(self.name)},"model":"m"'
        prompt_ids = json.dumps(given, separators=(",", ":"))
        if chat:
            yield self._frame(
                f'{who},"choices":[{{"index":0,"delta":{{"role":"assistant","content":""}},'
                f'"logprobs":null,"finish_reason":null}}],{_usage(len(given), 0)},'
                f'"prompt_token_ids":{prompt_ids},"prompt_text":null}}'
            )
        decoder = Decoder(self.vocabulary, given)
        sizes = itertools.cycle(self.per_frame)
        sent = 0
        while sent < len(tokens):
            ids = tokens[sent : sent + next(sizes)]
            first, sent = sent == 0, sent + len(ids)
            text = json.dumps("".join(map(decoder.step, ids)), ensure_ascii=False)
            ending = sent == len(tokens)
            reason = f'"{end}"' if ending else "null"
            stop = ',"stop_reason":null' if ending or not chat else ""
            told = "" if chat else f'"prompt_token_ids":{prompt_ids if first else "null"},'
            said = f'"delta":{{"content":{text}}}' if chat else f'"text":{text}'
            yield self._frame(
                f'{who},"choices":[{{"index":0,{said},"logprobs":null,"finish_reason":{reason}{stop},'
                f'{told}"token_ids":{json.dumps(ids, separators=(",", ":"))}}}],'
                f"{_usage(len(given), sent)}}}"
            )
        usage = _usage(len(given), len(tokens))
        yield self._frame(f'{who},"choices":[],{usage},"system_fingerprint":"v"}}')
        yield b"data: [DONE]\n\n"

    def _frame(self, data: str) -> bytes:
        return f"data: {data}\n\n".encode()


def _usage(prompt: int, completion: int) -> str:
    return (
        f'"usage":{{"prompt_tokens":{prompt},"total_tokens":{prompt + completion},'
        f'"completion_tokens":{completion}}}'
    )
