"""I/O: what was delivered, written down before it is sent, in memory that outlives the process.

A request has blocks of its own in the mapped files. When it is in the book, they are wiped and
used again: prompts and answers stand in the journal no longer than the request takes.

``open``, ``add`` and the like belong to one thread, the loop's; ``release`` and ``tend`` to the
book's. What they share is a queue of free blocks.
"""

import json
import secrets
import struct
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from gateway.bill import Closed, LegEnd, Opened, bounded
from gateway.ledger.entries import (
    BLOCK,
    BLOCK_HEAD,
    CHECK_MASK,
    CHECK_SHIFT,
    COUNT,
    HEAD,
    KIND_SHIFT,
    PROMPT,
    WORD,
    WORD_MASK,
    Kind,
    block_head,
    closed_payload,
    events_payload,
    head,
    leg_end_payload,
    leg_payload,
    opened_payload,
    padded,
)
from gateway.ledger.record import Booking, Leg, state_of
from gateway.ledger.segment import JournalError, Segment

SEGMENT_BYTES = 16 * 1024 * 1024
MOST_SEGMENTS = 64
# Blocks that are made ready before they are needed: a quarter of a segment.
SPARE_SHARE = 4
FOLDER_MODE = 0o700
ZERO = bytes(BLOCK)

ONE = struct.Struct("<2I")
ONE_SIZE = ONE.size

_ONE = ONE.pack_into
_ONE_ID = Kind.IDS << KIND_SHIFT | 1
_HEAD = HEAD.pack_into


class Slot:
    """A request in hand: where its next entry goes, and what has been counted so far."""

    __slots__ = (
        "at",
        "blocks",
        "closed",
        "end",
        "ended_legs",
        "journal",
        "leg_backend",
        "leg_base",
        "leg_prompt",
        "legs",
        "opened",
        "prompt_tokens",
        "run",
        "serial",
        "tokens",
        "view",
    )

    def __init__(self, journal: "Journal", opened: Opened, run: str, serial: int) -> None:
        self.journal = journal
        self.opened = opened
        self.run = run
        self.serial = serial
        self.blocks: list[tuple[Segment, int]] = []
        self.view = memoryview(b"")
        self.at = self.end = 0
        self.tokens = 0  # on the bill by this run; negative while they were so before it
        self.prompt_tokens: int | None = None
        self.leg_backend: str | None = None
        self.leg_prompt = self.leg_base = self.legs = 0
        self.ended_legs: deque[Leg] = deque()
        self.closed: Closed | None = None

    def one(self, token: int) -> None:
        """One event of one token is about to be sent. Raises JournalError where there is no room.

        Killed in the middle of it, the entry fails its check; nothing was sent then.
        """
        at = self.at
        if at + ONE_SIZE > self.end:
            self.journal.write(self, Kind.IDS, HEAD.pack(token))
        else:
            check = crc32(token.to_bytes(WORD, "little"), self.serial) & CHECK_MASK
            _ONE(self.view, at, check << CHECK_SHIFT | _ONE_ID, token)
            self.at = at + ONE_SIZE
        self.tokens += 1

    def booking(self) -> Booking:
        """Its booking, once it is closed."""
        closed = self.closed
        if closed is None:
            raise JournalError(f"request {self.opened.request_id} is still open")
        tokens = max(self.tokens, closed.completion_tokens)
        prompt = closed.prompt_tokens if self.prompt_tokens is None else self.prompt_tokens
        state = state_of(closed, tokens)
        legs = tuple(self.ended_legs)
        reason, at = closed.finish_reason, closed.at
        return Booking(self.opened, self.run, prompt, tokens, state, reason, at, legs)


class Journal:
    """The journal of this process. Raises JournalError where a file cannot be made."""

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        most_segments: int = MOST_SEGMENTS,
    ) -> None:
        self.folder = folder
        self.holder = uuid.uuid4().hex
        self.open_slots: dict[int, Slot] = {}
        self.closed_slots: deque[Slot] = deque()
        self.legs: deque[tuple[Slot, Leg]] = deque()
        self._segment_bytes = segment_bytes
        self._most_segments = most_segments
        self._segments: list[Segment] = []
        self._free: deque[tuple[Segment, int]] = deque()
        self._serial = secrets.randbits(32)
        try:
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        except OSError as error:
            raise JournalError(f"{folder}: cannot be made: {error.strerror}") from None
        self._grow()

    def run(self) -> tuple[str, int]:
        """A name for a run that no other has, and its serial number in this process."""
        self._serial = (self._serial + 1) & WORD_MASK
        return f"{self.holder}-{self._serial:08x}", self._serial

    def open(self, opened: Opened, run: tuple[str, int]) -> Slot:
        """Begin a run. Raises JournalError where there is no room."""
        slot = Slot(self, opened, *run)
        self._block(slot)
        self.write(slot, Kind.OPENED, opened_payload(opened, slot.run))
        self.open_slots[slot.serial] = slot
        return slot

    def add(self, slot: Slot, ids: Sequence[int], behind: Sequence[int] = ()) -> None:
        """Events are about to be sent, and these output tokens with them.

        ``behind``: as gateway.ledger.entries.events_payload has it. Raises JournalError where there
        is no room.
        """
        self.write(slot, Kind.EVENTS, events_payload(ids, behind))
        slot.tokens += len(ids)

    def details(self, slot: Slot, details: Sequence[Sequence[object]]) -> None:
        """The details of events that are about to be sent; they come before the events."""
        self.write(slot, Kind.DETAILS, padded(json.dumps(details).encode()))

    def again(self, slot: Slot, tokens: int) -> None:
        """So many of the tokens that follow are on the bill already. Said before all others."""
        self.write(slot, Kind.AGAIN, COUNT.pack(tokens))
        slot.tokens -= tokens

    def count(self, slot: Slot, tokens: int) -> None:
        """So many output tokens, whose ids are not known, are about to be sent."""
        self.write(slot, Kind.COUNT, COUNT.pack(tokens))
        slot.tokens += tokens

    def prompt(self, slot: Slot, tokens: int, read: int | None = None) -> None:
        """The prompt's length. Only the first one counts, however often it is said.

        ``read``: what this leg's backend has read, where that is more: on a later leg, the answer
        so far too.
        """
        tokens = bounded(tokens)
        slot.leg_prompt = tokens if read is None else bounded(read)
        self.write(slot, Kind.PROMPT, PROMPT.pack(tokens, slot.leg_prompt))
        if slot.prompt_tokens is None:
            slot.prompt_tokens = tokens

    def snapshot(self, slot: Slot, data: bytes) -> None:
        """What another needs to go on from here with what is added later; empty: nobody can."""
        self.write(slot, Kind.SNAPSHOT, padded(data))

    def leg(self, slot: Slot, backend: str, at: float) -> None:
        """A leg begins."""
        self.write(slot, Kind.LEG, leg_payload(backend, at))
        slot.leg_backend = backend
        slot.leg_prompt, slot.leg_base = 0, slot.tokens

    def leg_end(self, slot: Slot, ended: LegEnd) -> None:
        """A leg has ended; it need not have been told when it began."""
        slot.legs += 1
        leg = Leg(
            slot.legs,
            ended.backend,
            bounded(ended.prompt_tokens),
            bounded(ended.completion_tokens),
            ended.how,
            ended.at,
        )
        self.write(slot, Kind.LEG_END, leg_end_payload(leg))
        slot.leg_backend = None
        slot.ended_legs.append(leg)
        self.legs.append((slot, leg))

    def close(self, slot: Slot, closed: Closed) -> None:
        """The run has ended; what it holds is wiped when it is in the book."""
        closed = replace(
            closed,
            prompt_tokens=bounded(closed.prompt_tokens),
            completion_tokens=bounded(closed.completion_tokens),
        )
        self.write(slot, Kind.CLOSED, closed_payload(closed))
        slot.closed = closed
        self.closed_slots.append(slot)
        del self.open_slots[slot.serial]

    def release(self, slot: Slot) -> None:
        """Wipe a run that is in the book. The first block goes first: it makes the rest a run."""
        self._wipe(slot.blocks)
        slot.blocks = []

    def tend(self) -> None:
        """Make room before it is needed."""
        spare = self._segment_bytes // BLOCK // SPARE_SHARE
        if len(self._free) < spare and len(self._segments) < self._most_segments:
            self._grow()

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return len(self._segments) * self._segment_bytes

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in hand, and everything that ended is in the book."""
        return len(self._free) == sum(len(segment.blocks) for segment in self._segments)

    def remove(self) -> None:
        """Delete the files, which hold nothing any more."""
        self._free.clear()
        for segment in self._segments:
            segment.remove()
        self._segments.clear()

    def write(self, slot: Slot, kind: Kind, payload: bytes) -> None:
        """An entry, in as many parts as it takes; where there is no room for all, none is left."""
        place = slot.view, slot.at, slot.end
        blocks = len(slot.blocks)
        try:
            self._write_parts(slot, kind, memoryview(payload))
        except JournalError:
            slot.view, slot.at, slot.end = place
            if slot.at < slot.end:
                _HEAD(slot.view, slot.at, 0)
            self._wipe(slot.blocks[blocks:])
            del slot.blocks[blocks:]
            raise

    def _write_parts(self, slot: Slot, kind: Kind, rest: memoryview) -> None:
        while True:
            room = slot.end - slot.at - WORD
            if room < WORD:
                self._block(slot)
                continue
            part, rest = rest[:room], rest[room:]
            start = slot.at + WORD
            slot.view[start : start + len(part)] = part
            _HEAD(slot.view, slot.at, head(kind, part, slot.serial, more=len(rest) > 0))
            slot.at = start + len(part)
            if not rest:
                return

    def _block(self, slot: Slot) -> None:
        """The next block of a run. Raises JournalError where there is none."""
        try:
            segment, offset = self._free.popleft()
        except IndexError:
            self._grow()
            segment, offset = self._free.popleft()
        used, *place = block_head(slot.serial, len(slot.blocks))
        BLOCK_HEAD.pack_into(segment.view, offset, 0, *place)
        _HEAD(segment.view, offset, used)
        slot.blocks.append((segment, offset))
        slot.view = segment.view
        slot.at, slot.end = offset + BLOCK_HEAD.size, offset + BLOCK

    def _wipe(self, blocks: Sequence[tuple[Segment, int]]) -> None:
        for segment, offset in blocks:
            _HEAD(segment.view, offset, 0)
            segment.view[offset : offset + BLOCK] = ZERO
            self._free.append((segment, offset))

    def _grow(self) -> None:
        if len(self._segments) >= self._most_segments:
            raise JournalError(f"{self.folder}: {self.size} bytes of journal are in use")
        number = len(self._segments) + 1
        segment = Segment(self.folder, self.holder, number, self._segment_bytes)
        self._segments.append(segment)
        self._free.extend((segment, offset) for offset in segment.blocks)
