"""Entries of the journal: how each stands in its blocks, and what those of one run come to.

An entry is a word of 32 bits and its payload, a whole number of words. The first word holds the
payload's length, its kind and a check over it, and is written last: an entry counts as soon as
that word is there, and one that was torn fails the check. What does not fit into the rest of a
block goes on in the next entry (MORE). The check is seeded with the run's serial number, so
that nothing left over from another run passes for an entry of this one.
"""

import json
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from zlib import crc32

from gateway.bill import Closed, End, Opened
from gateway.ledger.record import Booking, Leg, State, state_of
from gateway.snapshot import Later, with_later

BLOCK = 4096
WORD = 4
# A block begins with: USED (written last), the run's serial number, its place in the run, a check.
BLOCK_HEAD = struct.Struct("<4I")
USED = 0x4B4C4231
LEFT_BEHIND = "lost"

KIND_SHIFT, MORE, CHECK_SHIFT = 10, 1 << 14, 15
LENGTH_MASK, KIND_MASK, CHECK_MASK = 0x3FF, 0xF, 0x1FFFF
WORD_MASK = 0xFFFFFFFF
HEAD = struct.Struct("<I")
COUNT = struct.Struct("<I")
PROMPT = struct.Struct("<2I")


class Kind(IntEnum):
    """What an entry says.

    IDS: one event, whose text ends where the text of these tokens ends. EVENTS: any number of them,
    as ``events_payload`` says it. DETAILS: of events, as JSON. AGAIN: so many of the tokens were
    on the bill before this run.
    """

    OPENED = 1
    IDS = 2
    COUNT = 3
    PROMPT = 4
    SNAPSHOT = 5
    LEG = 6
    LEG_END = 7
    CLOSED = 8
    EVENTS = 9
    DETAILS = 10
    AGAIN = 11


def head(kind: int, payload: bytes | memoryview, serial: int, *, more: bool = False) -> int:
    """The first word of an entry."""
    check = crc32(payload, serial) & CHECK_MASK
    length = len(payload) // WORD
    return check << CHECK_SHIFT | (MORE if more else 0) | kind << KIND_SHIFT | length


def block_head(serial: int, index: int) -> tuple[int, int, int, int]:
    """The four words at a block's beginning."""
    return USED, serial, index, crc32(struct.pack("<2I", serial, index))


def padded(data: bytes) -> bytes:
    """Bytes as a payload: their number, then they themselves up to a whole word."""
    return COUNT.pack(len(data)) + data + bytes(-len(data) % WORD)


def events_payload(ids: Sequence[int], behind: Sequence[int]) -> bytes:
    """Events and their tokens. ``behind``: for each event, how many tokens' text is not in it yet.

    Negative: it is not known, see gateway.outlet.UNSURE.
    """
    return array("I", (len(behind), *(one & WORD_MASK for one in behind), *ids)).tobytes()


def entries(blocks: Iterable[bytes], serial: int) -> Iterator[tuple[Kind, bytes]]:
    """What stands in a run's blocks, up to the first entry that is torn."""
    parts: list[bytes] = []
    for block in blocks:
        at = BLOCK_HEAD.size
        while at + WORD <= len(block):
            (first,) = HEAD.unpack_from(block, at)
            if first == 0:
                break
            length = (first & LENGTH_MASK) * WORD
            payload = block[at + WORD : at + WORD + length]
            kind = first >> KIND_SHIFT & KIND_MASK
            whole = len(payload) == length and 0 < kind <= max(Kind)
            if not whole or head(kind, payload, serial, more=bool(first & MORE)) != first:
                return
            parts.append(payload)
            if not first & MORE:
                yield Kind(kind), b"".join(parts)
                parts.clear()
            at += WORD + length


def unpadded(payload: bytes) -> bytes:
    """The bytes of which ``padded`` made a payload."""
    (length,) = COUNT.unpack_from(payload)
    return payload[WORD : WORD + length]


def opened_payload(opened: Opened, run: str) -> bytes:
    """A request's beginning."""
    return _told(opened, run=run)


def leg_payload(backend: str, at: float) -> bytes:
    """A leg's beginning."""
    return padded(json.dumps({"backend": backend, "at": at}).encode())


def leg_end_payload(leg: Leg) -> bytes:
    """A leg's end."""
    return _told(leg)


def closed_payload(closed: Closed) -> bytes:
    """A request's end."""
    return _told(closed)


def _told(one: Opened | Leg | Closed, **more: str) -> bytes:
    # asdict copies all values in depth, for several times the price of all the rest.
    values = {name: getattr(one, name) for name in one.__dataclass_fields__}
    return padded(json.dumps(values | more).encode())


@dataclass
class Found:
    """A run as the journal tells it. ``later`` is what was given after the snapshot."""

    opened: Opened
    run: str
    prompt_tokens: int | None = None
    counted: int = 0
    again: int = 0
    snapshot: bytes | None = None
    later: Later = field(default_factory=Later)
    legs: tuple[Leg, ...] = ()
    closed: Closed | None = None
    leg_backend: str | None = None
    leg_prompt: int = 0
    leg_base: int = 0

    @property
    def completion_tokens(self) -> int:
        """The output tokens that are on this run's bill."""
        return max(0, self.counted - self.again)

    @property
    def left(self) -> bytes | None:
        """The snapshot as it would be now; None where nobody can go on with it."""
        if self.snapshot is None or self.closed is not None:
            return None
        try:
            return json.dumps(with_later(json.loads(self.snapshot), self.later)).encode()
        except (ValueError, LookupError, TypeError):  # of another release; the bill comes first
            return None

    def booking(self, at: float) -> Booking:
        """Its booking, with its gateway gone: without an end it has ended at ``at``.

        It is partial then, or failed if nobody had worked on it as far as is known.
        """
        legs = self.legs
        if self.leg_backend is not None:
            received = self.counted - self.leg_base
            number = len(legs) + 1
            legs = (
                *legs,
                Leg(number, self.leg_backend, self.leg_prompt, received, LEFT_BEHIND, at),
            )
        if self.closed is None:
            untouched = self.prompt_tokens is None and self.completion_tokens == 0
            state, reason, ended_at, tokens, prompt = (
                State.FAILED if untouched else State.PARTIAL,
                "",
                at,
                self.completion_tokens,
                self.prompt_tokens,
            )
        else:
            tokens = max(self.completion_tokens, self.closed.completion_tokens)
            prompt = self.prompt_tokens
            prompt = self.closed.prompt_tokens if prompt is None else prompt
            state = state_of(self.closed, tokens)
            reason, ended_at = self.closed.finish_reason, self.closed.at
        return Booking(self.opened, self.run, prompt, tokens, state, reason, ended_at, legs)


def found(blocks: Sequence[bytes], serial: int) -> Found | None:
    """What a run's blocks tell; None where not even its beginning is whole."""
    run: Found | None = None
    for kind, payload in entries(blocks, serial):
        if run is None:
            if kind != Kind.OPENED:
                return None
            fields = json.loads(unpadded(payload))
            name = fields.pop("run")
            run = Found(Opened(**fields), name)
        else:
            _take(run, kind, payload)
    return run


def _take(run: Found, kind: Kind, payload: bytes) -> None:
    if kind == Kind.COUNT:
        run.counted += COUNT.unpack(payload)[0]
    elif kind == Kind.PROMPT:
        charged, read = PROMPT.unpack(payload)
        run.prompt_tokens = charged if run.prompt_tokens is None else run.prompt_tokens
        run.leg_prompt = read
    elif kind == Kind.LEG:
        run.leg_backend = json.loads(unpadded(payload))["backend"]
        run.leg_prompt, run.leg_base = 0, run.counted
    elif kind == Kind.LEG_END:
        run.legs = (*run.legs, Leg(**json.loads(unpadded(payload))))
        run.leg_backend = None
    elif kind == Kind.CLOSED:
        fields = json.loads(unpadded(payload))
        run.closed = Closed(**{**fields, "end": End(fields["end"])})
    else:
        _given(run, kind, payload)


def _given(run: Found, kind: Kind, payload: bytes) -> None:
    if kind == Kind.IDS:
        _events(run, array("I", payload), [0])
    elif kind == Kind.EVENTS:
        words = array("I", payload)
        first = words[0] + 1
        _events(run, words[first:], array("i", words[1:first].tobytes()))
    elif kind == Kind.DETAILS:
        run.later.details += map(tuple, json.loads(unpadded(payload)))
    elif kind == Kind.AGAIN:
        run.again = COUNT.unpack(payload)[0]
    elif kind == Kind.SNAPSHOT:
        run.snapshot, run.later = unpadded(payload) or None, Later()


def _events(run: Found, ids: Sequence[int], behind: Sequence[int]) -> None:
    run.counted += len(ids)
    later = run.later
    later.ids += ids
    given = len(later.ids)
    later.marks += [None if one < 0 else given - one for one in behind]
