"""What another gateway needs to go on with an answer, in plain values that JSON can hold."""

from typing import TypedDict


class Snapshot(TypedDict):
    """One interrupted answer. ``stops``: the end of the text, and what of it is held back."""

    route: str
    body: dict[str, object]
    forbidden: bool
    request_id: str
    created: int
    identity: str
    prompt_ids: list[int]
    delivered: list[int]
    prompt_tokens: int
    seq: int
    stops: list[str] | None
    clean: bool
    opened: list[int]
    spoke: bool
    never: str
    reasoned: bool
    text_end: int
