"""One request over all its legs: a backend's bytes in, the client's bytes and token ids out."""

from collections.abc import Callable, Mapping, Sequence

from gateway import closing, edit
from gateway.answer import Answer
from gateway.ask import Ask, Never
from gateway.client_view import ClientView
from gateway.cut import Cut, Learned
from gateway.frames import Event, Events, EventTooLongError
from gateway.onward import Onward
from gateway.outlet import Detail, Outlet
from gateway.quick import Quick
from gateway.resumable import Resume
from gateway.run import Run
from gateway.said import Choice, NotAFrameError, Said
from gateway.shape import Shape
from gateway.step import State, Step
from gateway.stops import Hit, Stops

__all__ = ["State", "Step", "Stream"]

TRUE_ENDS = frozenset(("stop", "length", "tool_calls", "content_filter"))
_OPEN = (State.RUNNING, State.FINISHED)


class Stream:
    """One request. ``created``: in seconds since 1970, as the snapshot tells it.

    Its parts are open to gateway.carried, which makes snapshots of it and streams from them.

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
        self.finish_reason: str | None = None
        self.why = ""  # of an interruption
        self.quick: Quick | None = None  # the short way for what comes next; else feed it
        # Told of each token that goes the short way, before it goes.
        self.line: Callable[[int], None] = _nobody
        self._short: Quick | None = None
        self._quick_at = 0.0  # by a short way that is no more
        self._runs: tuple[Run, ...] = ()  # since the last step
        self._learned = learned or Learned()
        stops = Stops(ask.stop, include=ask.include_stop, min_tokens=ask.min_tokens)
        cut = None if ask.resume is Resume.NEVER else Cut(self._learned.whole)
        self.outlet = Outlet(request_id)
        self.answer = Answer(self.outlet, cut, stops if ask.stop else None, gives_ids=ask.wants_ids)
        self.delivered = self.answer.delivered  # the output tokens that the client has the text of
        self.onward = Onward(ask, cut)
        self.view = ClientView(ask)
        self.text_end = 0  # where log probabilities stand in a completion's text
        self._known: Sequence[object] = ()  # what the last snapshot for which one asked was of
        self.unnamed = 0  # output tokens with text, whose ids the backend does not tell
        self.detailed = bool(ask.stop) or ask.body.get("logprobs") is not None
        if self.detailed:
            self.outlet.detail = self._detail
        self.begin()

    @property
    def prompt_ids(self) -> list[int]:
        """The token ids of the request's prompt."""
        return self.onward.prompt_ids

    @property
    def prompt_tokens(self) -> int:
        """How many tokens the request's prompt has."""
        return self.view.prompt_tokens

    @property
    def completion_tokens(self) -> int:
        """How many output tokens were delivered; told by the usage where no ids are told."""
        return len(self.delivered) or self._told_tokens

    @property
    def seq(self) -> int:
        """The number of the last event."""
        return self.outlet.seq

    @property
    def quick_at(self) -> float:
        """When a token last went the short way, in seconds of the turn's clock; 0: none did."""
        return self._quick_at if self._short is None else max(self._quick_at, self._short.at)

    @property
    def resume(self) -> tuple[Resume, str]:
        """What going on elsewhere would give now, and why when it is not exact."""
        return self.onward.resume

    def begin(self, learned: Learned | None = None) -> None:
        """Begin a leg, the first or a later one; what the last one left unfinished is dropped."""
        self._leave_quick()
        self.state = State.RUNNING
        self._events = Events()
        self._shape: Shape | None = None
        self._forget_short()
        self._leg_tokens = 0
        self._told_tokens = 0
        self.is_guess = False  # the backend tells neither ids nor number: one for each event
        self._finished: set[int] = set()  # the choices that have truly ended
        self._last: bytes | None = None  # a last frame that waits for the fingerprint
        self.usage_given = False
        self.answer.drop()
        self.onward.begin(untouched=not self.seq)
        self.view.tokens = len(self.delivered)
        self.view.characters = self.text_end
        if not self.seq:
            self.view.identity = b""
        if learned is not None:
            self._learned = learned
            self.answer.learn(learned)

    def feed(self, data: bytes) -> Step:
        """Take bytes of the backend's body, without their transfer coding."""
        self._leave_quick()
        progress = abort = False
        try:
            for raw in self._events.feed(data) if self.state in _OPEN else ():
                shape = self._shape
                if shape and (found := shape.read(raw, self._leg_tokens)):
                    progress = True
                    text, written, ids = found
                    self._leg_tokens += len(ids)
                    hit = self.answer.text(*shape.client(text, written), ids)
                    if hit is None:
                        continue
                    abort = self._stop(hit, b"".join(shape.client(b"", written)))
                else:
                    event = Event.from_bytes(raw)
                    progress = progress or event.data is not None
                    abort = self._event(raw, event)
                if self.state not in _OPEN:
                    break
        except (EventTooLongError, NotAFrameError) as error:
            self._interrupt(str(error))
        self._enter_quick()
        return self._step(progress=progress, abort=abort)

    def _enter_quick(self) -> None:
        between = self._events.is_between and self.state is State.RUNNING
        if self._short is not None and between and self.answer.is_plain:
            self._short.tokens = self._leg_tokens
            self.quick = self._short

    def _forget_short(self) -> None:
        self._quick_at, self._short = self.quick_at, None

    def _leave_quick(self) -> None:
        if self.quick is not None:
            self._leg_tokens = self.quick.tokens
            self.outlet.mark = self.outlet.marks[-1]
            if (run := self.quick.run()) is not None:
                self._runs += (run,)
            self.quick = None

    def _step(self, *, progress: bool = False, abort: bool = False) -> Step:
        out, ids, marks, details = self.outlet.take()
        runs, self._runs = self._runs, ()
        return Step(out, ids, self.state, progress, abort, marks, details, runs)

    def ended(self) -> Step:
        """Note that nothing more comes: end of file, reset, or silence for too long."""
        self._leave_quick()
        if self.state in _OPEN:
            self._interrupt("the backend's stream ended without a finish reason")
        return self._step()

    def later(self) -> bytes | Never:
        """Return the body to go on with elsewhere; then begin(). Also to hand over in time.

        Until begin() the present leg is not disturbed: one that cannot be left may go on.
        """
        if self.state in (State.FINISHED, State.COMPLETE):
            return Never("the answer is complete")
        return self.onward.body(self.delivered, untouched=not self.seq)

    def goodbye(self, frame: Mapping[str, object]) -> bytes:
        """Return a frame of our own as the next event."""
        self._leave_quick()
        self.outlet.event(closing.said(frame))
        return self.outlet.take().out

    def is_news(self) -> bool:
        """Tell whether a snapshot tells more now than a former one and all steps since then."""
        onward = self.onward
        known = (
            *(bool(self.prompt_ids), self.view.identity),
            *(onward.never, onward.reasoned, len(onward.opened)),
        )
        news, self._known = known != self._known, known
        return news

    def _detail(self, number: int) -> Detail:
        stops = self.answer.stops
        tail, held = stops.snapshot() if stops else ("", "")
        return Detail(number, tail, held, self.text_end, self.finish_reason)

    def _event(self, raw: bytes, event: Event) -> bool:
        """Take an event of no known shape; return whether the backend is to be hung up on."""
        if event.data is None:
            if event.comments:
                self.outlet.comment(raw)
            return False
        if event.data == b"[DONE]":
            self._interrupt("the backend said [DONE] without a finish reason")
            return False
        data = edit.compact(event.data)
        said, event = Said.decoded(data), Event(data, event.name)
        if said.error is not None:
            self._interrupt(f"the backend says: {said.error}")
            return False
        if said.prompt_tokens is not None and not self.view.tokens:
            self.view.prompt_tokens = said.prompt_tokens
        if said.completion_tokens is not None:
            self._told_tokens = said.completion_tokens
        if said.choices:
            return self._choice(event.line(), said, said.choices[0])
        if said.choices is None:
            self.outlet.event(event.line())
        else:
            self._usage(event.line())
        return False

    def _usage(self, frame: bytes) -> None:
        self._learned.fingerprint = edit.fingerprint(frame)
        self._give_last()
        if self.ask.wants_usage and self.state is State.FINISHED:
            self.usage_given = True
            self.outlet.event(self.view.usage(frame, self.completion_tokens))

    def _choice(self, frame: bytes, said: Said, one: Choice) -> bool:
        if one.prompt_ids is not None:
            self.onward.prompt(one.prompt_ids, first=not self.view.tokens)
        if not self.onward.verified:
            self.onward.never = "the backend does not go on from token ids"
            self._interrupt(self.onward.never)
        elif one.finish_reason is not None and one.finish_reason not in TRUE_ENDS:
            self._interrupt(f"the backend ended it with finish_reason {one.finish_reason}")
        elif not one.opens:
            return self._speech(frame, said, one)
        elif one.index not in self.onward.opened:
            self.onward.opened.add(one.index)
            self.outlet.event(self.view.of(frame, said, one))
        return False

    def _speech(self, frame: bytes, said: Said, one: Choice) -> bool:
        view = self.view.of(frame, said, one)
        self.onward.said(one)
        ids = one.ids or []
        self._leg_tokens += len(ids)
        if one.speaks and not (ids or self.delivered):
            self._unnamed(said)
        if one.text_end is not None and (one.text or one.finish_reason):
            self.text_end = self.view.characters + one.text_end
        if one.finish_reason is not None:
            return self._finish(view, one, ids, one.finish_reason)
        parts = edit.split_at_text(view) if one.text or not one.speaks else None
        if parts is None:
            hidden = one.empty and not (self.ask.wants_ids or one.has_logprobs)
            self.answer.other(b"" if hidden else view, ids, speaks=one.speaks)
            return False
        if one.is_plain and self.ask.choices == 1 and not self.ask.wants_continuous_usage:
            self._shape = shape = Shape.learned(frame, view)
            self._forget_short()
            if shape is not None:
                self._short = Quick(shape, self.answer, self.outlet, self.line)
        hit = self.answer.text(*parts, ids)
        return hit is not None and self._stop(hit, view)

    def _unnamed(self, said: Said) -> None:
        """Count text that no ids stand for."""
        if said.completion_tokens is None:
            self.is_guess = True
            self._told_tokens += 1
        self.unnamed = max(self.unnamed, self._told_tokens)

    def _finish(self, view: bytes, one: Choice, ids: Sequence[int], reason: str) -> bool:
        text = self.answer.last(one.text, ids)
        if isinstance(text, Hit):
            return self._stop(text, view)
        if text != one.text:
            view = edit.with_text(view, text)
        self.ends_with(reason)
        self._finished.add(one.index)
        if len(self._finished) >= self.ask.choices:
            self.state = State.FINISHED
        if self.ask.wants_usage:
            self.outlet.event(view)
        elif self._learned.fingerprint is None and self.ask.choices == 1:
            self._last = view
        else:
            self.outlet.event(edit.with_fingerprint(view, self._learned.fingerprint or b""))
        return False

    def _stop(self, hit: Hit, view: bytes) -> bool:
        """End the answer at a stop string; whatever the backend goes on to say is not asked for."""
        self.ends_with("stop")
        view = edit.with_text(edit.with_finish(view, "stop", hit.stop), hit.text)
        if not self.ask.wants_usage:
            view = edit.with_fingerprint(view, self._learned.fingerprint or b"")
        self.outlet.event(view)
        self._complete()
        return True

    def ends_with(self, reason: str) -> None:
        """Note why the answer ends; from here on its events have details."""
        self.finish_reason = reason
        self.outlet.detail = self._detail

    def _give_last(self) -> None:
        if self._last is not None:
            self.outlet.event(edit.with_fingerprint(self._last, self._learned.fingerprint or b""))
            self._last = None

    def _complete(self) -> None:
        self._give_last()
        if self.ask.wants_usage and not self.usage_given:
            fingerprint = self._learned.fingerprint or b""
            self.outlet.event(self.view.own_usage(self.completion_tokens, fingerprint))
        self.outlet.event(edit.DONE)
        self.state = State.COMPLETE

    def _interrupt(self, why: str) -> None:
        """Note that the leg is over: an answer that has truly ended, or is full, is complete."""
        if self.state is State.FINISHED:
            self._complete()
            return
        self.why = why
        self.state = State.INTERRUPTED
        self.answer.drop()
        limit, delivered = self.ask.max_tokens, len(self.delivered)
        if self.ask.choices == 1 and limit is not None and delivered >= limit > 0:
            self.ends_with("length")
            self.outlet.event(self.view.own_end(self.answer.rest(), "length"))
            self._complete()


def _nobody(_token: int) -> None:
    """Nobody is told."""
