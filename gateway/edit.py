"""One frame's bytes with one thing changed, and all others exactly as they were.

Invariant that all of this rests on: inside of a JSON string each quotation mark has a backslash
in front of it. So bytes like ``token_ids":[`` and ``,"usage":{`` are never part of a text.
"""

import json
import re

DONE = b"data: [DONE]"
CHOICES = b',"choices":['


def compact(data: bytes) -> bytes:
    """Return a frame's JSON as vLLM writes it: without blanks, and who it is before its choices.

    What has no choices is returned as it is.
    """
    if CHOICES in data:
        return data
    try:
        frame = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(frame, dict) or "choices" not in frame:
        return data
    who = {name: frame[name] for name in ("id", "object", "created", "model") if name in frame}
    return json.dumps(who | frame, separators=(",", ":")).encode()


def identity(raw: bytes) -> bytes:
    """Return a frame up to its choices: id, object, created and model."""
    return raw.partition(CHOICES)[0]


def with_identity(raw: bytes, identity: bytes) -> bytes:
    """Return the frame as if another had said who it is."""
    _, found, rest = raw.partition(CHOICES)
    return identity + CHOICES + rest if found else raw


def without_ids(raw: bytes) -> bytes:
    """Return the frame as it is for a client that did not ask for token ids."""
    return _ANY_IDS.sub(b'token_ids":null', raw)


def without_prompt_ids(raw: bytes) -> bytes:
    """Return the frame as it is when an earlier one has told the prompt's ids."""
    return _PROMPT_IDS.sub(b'"prompt_token_ids":null', raw)


def without_usage(raw: bytes) -> bytes:
    """Return the frame as it is for a client that did not ask for the usage so far."""
    return _USAGE.sub(b"", raw, count=1)


def with_fingerprint(raw: bytes, fingerprint: bytes) -> bytes:
    """Return a last frame without usage with the fingerprint that a usage frame would have."""
    return raw if b'"system_fingerprint":' in raw else raw[:-1] + fingerprint + raw[-1:]


def with_counts(raw: bytes, prompt: int, completion: int) -> bytes:
    """Return the frame with other numbers in its usage."""

    def counted(usage: re.Match[bytes]) -> bytes:
        told = usage.group()
        for name, number in (
            (b"prompt", prompt),
            (b"completion", completion),
            (b"total", prompt + completion),
        ):
            told = re.sub(rb'"%s_tokens":\d+' % name, b'"%s_tokens":%d' % (name, number), told)
        return told

    return _USAGE.sub(counted, raw, count=1)


def with_text(raw: bytes, text: str) -> bytes:
    """Return the frame with another text."""
    found = split_at_text(raw)
    if found is None:
        return raw.replace(b'"delta":{}', b'"delta":{"content":"%s"}' % quoted(text), 1)
    return found[0] + quoted(text) + found[2]


def split_at_text(raw: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return what is in front of the answer's text, its text (still escaped), what is behind."""
    found = _TEXT.search(raw)
    if found is None:
        return None
    return raw[: found.start(1)], found.group(1), raw[found.end(1) :]


def with_finish(raw: bytes, finish_reason: str, stop_reason: str | int | None) -> bytes:
    """Return the frame as one that ends the answer, and so."""
    end = b'"finish_reason":"%s","stop_reason":%s' % (
        finish_reason.encode(),
        json.dumps(stop_reason, ensure_ascii=False).encode(),
    )
    return _FINISH.sub(lambda _: end, raw, count=1)


def with_text_offsets(raw: bytes, further: int) -> bytes:
    """Return a completion's frame whose log probabilities stand further on in the text."""

    def moved(offsets: re.Match[bytes]) -> bytes:
        numbers = [int(number) + further for number in offsets.group(1).split(b",") if number]
        return b'"text_offset":[%s]' % ",".join(map(str, numbers)).encode()

    return _OFFSETS.sub(moved, raw)


def fingerprint(raw: bytes) -> bytes:
    """Return the member ``system_fingerprint`` with its comma, or nothing."""
    found = _FINGERPRINT.search(raw)
    return found.group() if found else b""


def quoted(text: str) -> bytes:
    """Return the text as the inside of a JSON string, escaped as vLLM does it."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def unquoted(inside: bytes) -> str:
    """Return the text of the inside of a JSON string."""
    if b"\\" not in inside:
        return inside.decode()
    text: str = json.loads(b'"%s"' % inside)
    return text


_ANY_IDS = re.compile(rb'token_ids":\[[\d,\s]*\]')
_PROMPT_IDS = re.compile(rb'"prompt_token_ids":\[[\d,\s]*\]')
_USAGE = re.compile(rb',"usage":(?:null|\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')
_TEXT = re.compile(rb'(?:"delta":\{(?:"role":"[^"\\]*",)?"content"|"text"):"((?:[^"\\]|\\.)*)"')
_FINISH = re.compile(
    rb'"finish_reason":(?:null|"[^"\\]*")(?:,"stop_reason":(?:null|\d+|"(?:[^"\\]|\\.)*"))?'
)
_OFFSETS = re.compile(rb'"text_offset":\[([\d,]*)\]')
_FINGERPRINT = re.compile(rb',"system_fingerprint":"(?:[^"\\]|\\.)*"')
