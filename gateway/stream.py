"""One request over all its legs: a backend's bytes in, the client's bytes and token ids out."""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from gateway import closing, edit
from gateway.answer import Answer
from gateway.ask import Ask, Never, Route, ask, first_body, later_body
from gateway.cut import Cut, Learned
from gateway.frames import Event, Events, EventTooLongError
from gateway.outlet import Outlet
from gateway.resumable import Resume
from gateway.said import Choice, NotAFrameError, Said
from gateway.shape import Shape
from gateway.snapshot import Snapshot
from gateway.stops import Hit, Stops


class State(StrEnum):
    """How far it is. FINISHED: it has truly ended, but usage or [DONE] have not come yet."""

    RUNNING = "running"
    FINISHED = "finished"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"


class Step(NamedTuple):
    """What a piece came to.

    ``out``: events for the client. ``ids``: the output tokens that they stand for; bill them
    before the bytes go out. ``progress``: something other than comments came. ``abort``: the
    backend is of no more use, hang up on it.
    """

    out: bytes
    ids: Sequence[int]
    state: State
    progress: bool = False
    abort: bool = False


_OPEN = (State.RUNNING, State.FINISHED)
TRUE_ENDS = frozenset(("stop", "length", "tool_calls", "content_filter"))


class Stream:
    """One request. ``created``: in seconds since 1970; the snapshot's word when it began.

    Invariants: the text given out and the text held for stop strings are together the text of
    ``delivered``; ``delivered`` only grows; a frame that interrupts is never given out, nor is
    anything of that leg after it; event numbers have no gap.
    """

    def __init__(
        self, ask: Ask, request_id: str, created: int, learned: Learned | None = None
    ) -> None:
        self.ask = ask
        self.request_id = request_id
        self.created = created
        self.prompt_ids: list[int] = []
        self.prompt_tokens = 0
        self.finish_reason: str | None = None
        self.why = ""
        self._learned = learned or Learned()
        self._outlet = Outlet(request_id)
        self._answer = Answer(
            self._outlet,
            None if ask.resume is Resume.NEVER else Cut(self._learned.whole),
            Stops(ask.stop, include=ask.include_stop, min_tokens=ask.min_tokens)
            if ask.stop
            else None,
        )
        self._identity = b""
        self._opened: set[int] = set()  # the choices whose role frame was given out
        self._spoke = False  # something other than role frames was given out
        self._never = ""  # why it cannot go on elsewhere, found out on the way
        self._reasoned = False
        self._expected: list[int] | None = None  # the prompt that this leg must tell
        self._text_end = 0  # where log probabilities stand in a completion's text
        self.begin()

    @property
    def delivered(self) -> list[int]:
        """The output tokens that the client has the text of."""
        return self._answer.delivered

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self._outlet.seq

    @property
    def completion_tokens(self) -> int:
        """How many output tokens were delivered; told by the usage where no ids are told."""
        return len(self.delivered) or self._told_tokens

    @property
    def resume(self) -> tuple[Resume, str]:
        """What going on elsewhere would give now, and why when it is not exact."""
        cut = self._answer.cut
        if cut is None or self._never:
            return Resume.NEVER, self._never or self.ask.resume_why
        if not cut.clean:
            return Resume.NEVER, "the last frame has several tokens, the last one maybe unfinished"
        if self._reasoned and self.ask.resume is Resume.EXACT:
            return Resume.BEST_EFFORT, "a reasoning parser starts anew"
        return self.ask.resume, self.ask.resume_why

    def begin(self, learned: Learned | None = None) -> None:
        """Begin a leg, the first or a later one; what the last one left unfinished is dropped."""
        self.state = State.RUNNING
        self._events = Events()
        self._shape: Shape | None = None
        self._leg_tokens = 0
        self._told_tokens = 0
        self._base = len(self.delivered)
        self._text_base = self._text_end
        self._verified = self._expected is None
        self._finished: set[int] = set()
        self._last: bytes | None = None  # a last frame that waits for the fingerprint
        self._usage_given = False
        self._answer.drop()
        if learned is not None:
            self._learned = learned
            if self._answer.cut is not None:
                self._answer.cut.whole = learned.whole
        if not self.seq:
            self._identity, self.prompt_ids = b"", []

    def feed(self, data: bytes) -> Step:
        """Take bytes of the backend's body, without their transfer coding."""
        progress = abort = False
        try:
            for raw in self._events.feed(data) if self.state in _OPEN else ():
                shape = self._shape
                if shape and (found := shape.read(raw, self._leg_tokens)):
                    progress = True
                    text, written, ids = found
                    self._leg_tokens += len(ids)
                    hit = self._answer.text(*shape.client(text, written), ids)
                    if hit is None:
                        continue
                    abort = self._stop(hit, b"".join(shape.client(b"", written)))
                else:
                    event = Event.from_bytes(raw)
                    progress = progress or event.data is not None
                    abort = self._decode(raw, event)
                if self.state not in _OPEN:
                    break
        except (EventTooLongError, NotAFrameError) as error:
            self._interrupt(str(error))
        return Step(*self._outlet.take(), self.state, progress, abort)

    def ended(self) -> Step:
        """Note that nothing more comes: end of file, reset, or silence for too long."""
        if self.state is State.FINISHED:
            self._complete()
        elif self.state is State.RUNNING:
            self._interrupt("the backend's stream ended without a finish reason")
        return Step(*self._outlet.take(), self.state)

    def later(self) -> bytes | Never:
        """Return the body to go on with elsewhere; then begin(). Also to hand over in time."""
        if self.state in (State.FINISHED, State.COMPLETE):
            return Never("the answer is complete")
        self._answer.drop()
        self._expected = None
        how, why = self.resume
        stuck = how is Resume.NEVER or not self.prompt_ids
        if not self.seq or (stuck and not self._spoke and not self.ask.forbidden):
            return first_body(self.ask)
        if how is Resume.NEVER:
            return Never(why)
        body = later_body(self.ask, self.prompt_ids, self.delivered)
        if isinstance(body, bytes):
            self._expected = [*self.prompt_ids, *self.delivered]
        return body

    def goodbye(self, frame: Mapping[str, object]) -> bytes:
        """Return a frame of our own as the next event."""
        self._outlet.event(closing.said(frame))
        return self._outlet.take()[0]

    def snapshot(self) -> Snapshot:
        """Return all that another gateway needs to go on."""
        answer = self._answer
        return Snapshot(
            route=self.ask.route.value,
            body=dict(self.ask.body),
            forbidden=self.ask.forbidden,
            request_id=self.request_id,
            created=self.created,
            identity=self._identity.decode(),
            prompt_ids=list(self.prompt_ids),
            delivered=list(self.delivered),
            prompt_tokens=self.prompt_tokens,
            seq=self.seq,
            stops=answer.stops.snapshot() if answer.stops else None,
            clean=answer.cut is None or answer.cut.clean,
            opened=sorted(self._opened),
            spoke=self._spoke or bool(self.delivered),
            never=self._never,
            reasoned=self._reasoned,
            text_end=self._text_end,
        )

    @classmethod
    def restore(cls, snapshot: Snapshot, learned: Learned | None = None) -> "Stream":
        """Return an interrupted stream as it was, to go on with later() and begin()."""
        body = json.dumps(snapshot["body"]).encode()
        asked = ask(Route(snapshot["route"]), body, forbid_resume=snapshot["forbidden"])
        stream = cls(asked, snapshot["request_id"], snapshot["created"], learned)
        answer = stream._answer
        stream._identity = snapshot["identity"].encode()
        stream.prompt_ids = list(snapshot["prompt_ids"])
        answer.delivered += snapshot["delivered"]
        stream.prompt_tokens = snapshot["prompt_tokens"]
        stream._outlet.seq = snapshot["seq"]
        if answer.stops and snapshot["stops"]:
            answer.stops.restore(snapshot["stops"])
        if answer.cut:
            answer.cut.clean = snapshot["clean"]
        stream._opened.update(snapshot["opened"])
        stream._spoke = snapshot["spoke"]
        stream._never = snapshot["never"]
        stream._reasoned = snapshot["reasoned"]
        stream._text_end = snapshot["text_end"]
        stream.state = State.INTERRUPTED
        stream.why = "taken up from a snapshot"
        return stream

    def _decode(self, raw: bytes, event: Event) -> bool:
        if event.data is None:
            if event.comments:
                self._outlet.comment(raw)
            return False
        if event.data == b"[DONE]":
            if self.state is State.FINISHED:
                self._complete()
            else:
                self._interrupt("the backend said [DONE] without a finish reason")
            return False
        frame = event.line()
        said = Said.decoded(event.data)
        if said.error is not None:
            self._interrupt(f"the backend says: {said.error}")
        elif said.choices is None:
            self._outlet.event(frame)
        elif not said.choices:
            self._usage(frame, said)
        else:
            return self._choice(frame, said, said.choices[0])
        return False

    def _usage(self, frame: bytes, said: Said) -> None:
        self._learned.fingerprint = edit.fingerprint(frame)
        self._count(said)
        self._give_last()
        if self.ask.wants_usage and self.state is State.FINISHED:
            frame = edit.with_identity(frame, self._identity)
            if self._base:
                frame = edit.with_counts(frame, self.prompt_tokens, self.completion_tokens)
            self._usage_given = True
            self._outlet.event(frame)

    def _count(self, said: Said) -> None:
        if said.prompt_tokens is not None and not self._base:
            self.prompt_tokens = said.prompt_tokens
        if said.completion_tokens is not None:
            self._told_tokens = said.completion_tokens

    def _choice(self, frame: bytes, said: Said, one: Choice) -> bool:
        self._count(said)
        if one.prompt_ids is not None:
            self._verified = self._verified or one.prompt_ids == self._expected
            if not self._base:
                self.prompt_ids = one.prompt_ids
        if not self._verified:
            self._never = "the backend does not go on from token ids"
            self._interrupt(self._never)
            return False
        if one.finish_reason is not None and one.finish_reason not in TRUE_ENDS:
            self._interrupt(f"the backend ended it with finish_reason {one.finish_reason}")
            return False
        self._identity = self._identity or edit.identity(frame)
        view = self._view(frame, said, one)
        if one.opens:
            if one.index not in self._opened:
                self._opened.add(one.index)
                self._outlet.event(view)
            return False
        self._spoke = True
        self._reasoned = self._reasoned or one.reasons
        if one.calls_tool:
            self._never = "a tool call has begun"
        if one.ids is None:
            self._never = self._never or "the backend does not tell the token ids of the answer"
        ids = one.ids or []
        self._leg_tokens += len(ids)
        if one.text_end is not None and (one.text or one.finish_reason):
            self._text_end = self._text_base + one.text_end
        if one.finish_reason is not None:
            return self._finish(view, one, ids, one.finish_reason)
        parts = edit.split_at_text(view) if one.text or not one.speaks else None
        if parts is None:
            hidden = one.empty and not (self.ask.wants_ids or one.has_logprobs)
            self._answer.other(b"" if hidden else view, ids, speaks=one.speaks)
            return False
        if self._has_shape(one):
            self._shape = Shape.learned(frame, view)
        hit = self._answer.text(*parts, ids)
        return hit is not None and self._stop(hit, view)

    def _has_shape(self, one: Choice) -> bool:
        """Whether the next frames may be read by this one's shape."""
        plain = not (one.has_logprobs or one.prompt_ids or one.reasons or one.calls_tool)
        return plain and self.ask.choices == 1 and not self.ask.wants_continuous_usage

    def _view(self, frame: bytes, said: Said, one: Choice) -> bytes:
        """Return the frame as it is for a client that asked for no more than ours did."""
        view = edit.with_identity(frame, self._identity)
        if not self.ask.wants_ids:
            view = edit.without_ids(view)
        elif one.prompt_ids and self._base:
            view = edit.without_prompt_ids(view)
        if not self.ask.wants_continuous_usage:
            view = edit.without_usage(view)
        elif self._base and said.completion_tokens is not None:
            further = self._base + said.completion_tokens
            view = edit.with_counts(view, self.prompt_tokens, further)
        return edit.with_text_offsets(view, self._text_base) if self._text_base else view

    def _finish(self, view: bytes, one: Choice, ids: Sequence[int], reason: str) -> bool:
        text = self._answer.last(one.text, ids)
        if isinstance(text, Hit):
            return self._stop(text, view)
        if text != one.text:
            view = edit.with_text(view, text)
        self.finish_reason = reason
        self._finished.add(one.index)
        if len(self._finished) >= self.ask.choices:
            self.state = State.FINISHED
        if self.ask.wants_usage:
            self._outlet.event(view)
        elif self._learned.fingerprint is None and self.ask.choices == 1:
            self._last = view
        else:
            fingerprint = self._learned.fingerprint or b""
            self._outlet.event(edit.with_fingerprint(view, fingerprint))
        return False

    def _stop(self, hit: Hit, view: bytes) -> bool:
        """End the answer at a stop string; whatever the backend goes on to say is not asked for."""
        self.finish_reason = "stop"
        view = edit.with_text(edit.with_finish(view, "stop", hit.stop), hit.text)
        if not self.ask.wants_usage:
            view = edit.with_fingerprint(view, self._learned.fingerprint or b"")
        self._outlet.event(view)
        self._complete()
        return True

    def _give_last(self) -> None:
        if self._last is not None:
            view = edit.with_fingerprint(self._last, self._learned.fingerprint or b"")
            self._outlet.event(view)
            self._last = None

    def _complete(self) -> None:
        self._give_last()
        if self.ask.wants_usage and not self._usage_given:
            counts = self.prompt_tokens, self.completion_tokens
            fingerprint = self._learned.fingerprint or b""
            self._outlet.event(closing.usage(self._identity, *counts, fingerprint))
        self._outlet.event(edit.DONE)
        self.state = State.COMPLETE

    def _interrupt(self, why: str) -> None:
        """Drop what was not given out; but an answer that has truly ended, or is full, is whole."""
        if self.state is State.FINISHED:
            self._complete()
            return
        self.why = why
        self.state = State.INTERRUPTED
        self._answer.drop()
        full = self.ask.max_tokens is not None and len(self.delivered) >= self.ask.max_tokens
        if full and self.ask.choices == 1 and self.delivered:
            self.finish_reason = "length"
            rest = self._answer.stops.rest("") if self._answer.stops else ""
            self._outlet.event(closing.end(self.ask, self._identity, rest, "length"))
            self._complete()
