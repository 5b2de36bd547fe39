"""The fast path: a frame whose shape is known is told apart without decoding it.

vLLM's token frames of one leg differ in three places: the text, the token ids, and two numbers of
the usage so far, which follow from the ids. All other bytes are compared. What differs anywhere
else is no frame of the shape and is decoded.
"""

from dataclasses import dataclass

from gateway import edit

_IDS = b'"token_ids":['
_TOTAL, _COMPLETION = b'"total_tokens":', b'"completion_tokens":'


@dataclass(frozen=True, slots=True)
class Shape:
    """The bytes in front of the text, between text and ids, and behind the ids up to the counts.

    ``tail`` and ``tail_with_ids`` are what the client gets behind the text; ``head`` is what it
    gets in front of it.
    """

    before: bytes
    between: bytes
    behind: bytes  # a format with two numbers: total and completion tokens
    prompt_tokens: int
    head: bytes
    tail: bytes
    tail_before_ids: bytes | None  # None: the client does not get the ids
    tail_behind_ids: bytes

    def read(self, raw: bytes, tokens: int) -> tuple[bytes, bytes, list[int]] | None:
        """Return the text (still escaped), the ids as written and the ids; or None: another shape.

        ``tokens``: how many this leg has given in earlier frames.
        """
        before, between = self.before, self.between
        start = len(before)
        if not raw.startswith(before):
            return None
        end = raw.find(between, start)
        if end < 0:
            return None
        ids_start = end + len(between)
        ids_end = raw.find(b"]", ids_start)
        written = raw[ids_start:ids_end]
        tokens += written.count(b",") + 1
        counted = self.behind % (self.prompt_tokens + tokens, tokens)
        if not written or raw[ids_end:] != counted:
            return None
        text = raw[start:end]
        if b'"' in text and _ends_early(text):
            return None
        one = b"," not in written
        return text, written, [int(written)] if one else [*map(int, written.split(b","))]

    def client(self, text: bytes, ids: bytes) -> tuple[bytes, bytes, bytes]:
        """Return the client's frame: in front of the text, the text, and what is behind."""
        if self.tail_before_ids is None:
            return self.head, text, self.tail
        return self.head, text, self.tail_before_ids + ids + self.tail_behind_ids

    @classmethod
    def learned(cls, raw: bytes, client: bytes) -> "Shape | None":
        """Return the shape of a token frame, given as it came and as the client gets it."""
        came, given = edit.split_at_text(raw), edit.split_at_text(client)
        if came is None or given is None:
            return None
        before, _, rest = came
        between, found, behind = rest.partition(_IDS)
        ids, closed, behind = behind.partition(b"]")
        total, completion = _number(behind, _TOTAL), _number(behind, _COMPLETION)
        if not (found and ids and total and completion and total[0] < completion[0]):
            return None
        tokens = int(behind[slice(*completion)])
        template = b"%s%%d%s%%d%s" % tuple(
            part.replace(b"%", b"%%")
            for part in (
                closed + behind[: total[0]],
                behind[total[1] : completion[0]],
                behind[completion[1] :],
            )
        )
        tail = given[2]
        kept = tail.partition(_IDS + ids)
        return cls(
            before=before,
            between=between + found,
            behind=template,
            prompt_tokens=int(behind[slice(*total)]) - tokens,
            head=given[0],
            tail=tail,
            tail_before_ids=kept[0] + _IDS if kept[1] else None,
            tail_behind_ids=kept[2],
        )


def _number(within: bytes, name: bytes) -> tuple[int, int] | None:
    """Where the number of this name begins and ends."""
    start = within.find(name)
    if start < 0:
        return None
    start += len(name)
    end = start
    while within[end : end + 1].isdigit():
        end += 1
    return (start, end) if end > start else None


def _ends_early(text: bytes) -> bool:
    """Whether the text holds a quotation mark that ends it: then more than a text is in there."""
    return b'"' in text.replace(b"\\\\", b"").replace(b'\\"', b"")
