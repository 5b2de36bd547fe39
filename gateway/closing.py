"""Frames that the gateway makes itself, in vLLM's form: the end, the usage, the last word."""

import json
from collections.abc import Mapping

from gateway import edit
from gateway.ask import Ask, Route


def end(ask: Ask, identity: bytes, text: str, finish_reason: str) -> bytes:
    """Return a frame that ends the answer."""
    inside = edit.quoted(text)
    chat = ask.route is Route.CHAT
    said = b'"delta":{"content":"%s"}' % inside if chat else b'"text":"%s"' % inside
    prompt_ids = b"" if chat else b'"prompt_token_ids":null,'
    return (
        b'%s,"choices":[{"index":0,%s,"logprobs":null,"finish_reason":"%s","stop_reason":null,'
        b'%s"token_ids":%s}]}'
        % (
            *(identity, said, finish_reason.encode(), prompt_ids),
            b"[]" if ask.wants_ids else b"null",
        )
    )


def usage(identity: bytes, prompt: int, completion: int, fingerprint: bytes) -> bytes:
    """Return the frame with the usage of the whole answer."""
    return (
        b'%s,"choices":[],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}%s}'
        % (identity, prompt, prompt + completion, completion, fingerprint)
    )


def said(frame: Mapping[str, object]) -> bytes:
    """Return any frame of our own."""
    return b"data: " + json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode()
