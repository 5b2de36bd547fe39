"""Text to token ids and back, and which id follows.

Ids below 256 are bytes of UTF-8, the others whole words. The next id depends on all ids before it
and on nothing else, so a prompt that carries what was generated so far goes on as the original
would have (as greedy decoding does).
"""

import re
from collections.abc import Iterable
from functools import reduce

BYTES = 256
WORDS = tuple(
    f" {word}"
    for word in (  # noqa: SIM905 - prose reads better than sixty strings
        "the tide turns and water runs over sand while every wave keeps its own count of stones a"
        " guard on shore looks out for one hand above foam then walks in slowly not to wake who is"
        " only resting bell rings far boats drift home light falls mañana naïve 海 sea salt wind"
        " rope calm deep blue slow long after noon"
    ).split()
)
_IDS = {word: BYTES + index for index, word in enumerate(WORDS)}
_PIECE = re.compile(r" ?\w+|.", re.DOTALL)
_OFFSET, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def encode(text: str) -> tuple[int, ...]:
    """Words of the vocabulary become one id, everything else its bytes."""
    return tuple(
        token
        for piece in _PIECE.findall(text)
        for token in ((_IDS[piece],) if piece in _IDS else piece.encode("utf-8", "surrogatepass"))
    )


def decode(ids: Iterable[int]) -> str:
    """The text of these ids; bytes that are no UTF-8 become U+FFFD."""
    data = b"".join(
        bytes((token,)) if token < BYTES else WORDS[token - BYTES].encode() for token in ids
    )
    return data.decode("utf-8", "replace")


def known(token: int) -> bool:
    """Whether this id is in the vocabulary."""
    return 0 <= token < BYTES + len(WORDS)


def fold(ids: Iterable[int], digest: int = _OFFSET) -> int:
    """The digest of all ids so far; ``digest`` is that of the ids before these."""
    return reduce(lambda folded, token: ((folded ^ token) * _PRIME) & _MASK, ids, digest)


def following(digest: int) -> int:
    """The id that follows the ids with this digest; always a whole word."""
    return BYTES + (digest >> 17) % len(WORDS)
