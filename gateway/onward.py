"""Whether an answer can go on elsewhere, and with what: the request's class and what was seen."""

from collections.abc import Sequence

from gateway.ask import Ask, Never, first_body, later_body
from gateway.cut import Cut
from gateway.resumable import Resume
from gateway.said import Choice


class Onward:
    """What the legs so far tell about the next one.

    Invariant: a leg that goes on from token ids says nothing to the client before it has told
    that it does (``verified``): vLLM passes over ids that it does not take, and begins anew.
    """

    def __init__(self, ask: Ask, cut: Cut | None) -> None:
        self._ask = ask
        self._cut = cut
        self._expected: list[int] | None = None  # the prompt that this leg must tell
        self.prompt_ids: list[int] = []
        self.never = ""  # why it cannot go on, seen on the way
        self.reasoned = False
        self.again = 0  # tokens that were generated again, as their client did not get them
        self.spoke = False  # something other than role frames was seen
        self.opened: set[int] = set()  # the choices whose role frame was given out
        self.verified = True

    @property
    def resume(self) -> tuple[Resume, str]:
        """What going on would give now, and why when it is not exact."""
        if self._cut is None or self.never:
            return Resume.NEVER, self.never or self._ask.resume_why
        if not self._cut.clean:
            return Resume.NEVER, "the last frame has several tokens, the last one maybe unfinished"
        if self.reasoned and self._ask.resume is Resume.EXACT:
            return Resume.BEST_EFFORT, "a reasoning parser starts anew"
        return self._ask.resume, self._ask.resume_why

    def body(self, delivered: Sequence[int], *, untouched: bool) -> bytes | Never:
        """Return what to ask the next backend for. ``untouched``: the client has had no byte."""
        self._expected = None
        how, why = self.resume
        stuck = how is Resume.NEVER or not self.prompt_ids
        if untouched or (stuck and not self.spoke and not self._ask.forbidden):
            return first_body(self._ask)
        if how is Resume.NEVER:
            return Never(why)
        body = later_body(self._ask, self.prompt_ids, delivered)
        if isinstance(body, bytes):
            self._expected = [*self.prompt_ids, *delivered]
        return body

    def begin(self, *, untouched: bool) -> None:
        """Begin a leg."""
        self.verified = self._expected is None
        if untouched:
            self.prompt_ids = []

    def prompt(self, ids: list[int], *, first: bool) -> None:
        """Take the ids of the prompt, as the backend tells them."""
        self.verified = self.verified or ids == self._expected
        if first:
            self.prompt_ids = ids

    def said(self, one: Choice) -> None:
        """Note a frame that says more than who speaks."""
        self.spoke = True
        self.reasoned = self.reasoned or one.reasons
        if one.calls_tool:
            self.never = "a tool call has begun"
        if one.ids is None:
            self.never = self.never or "the backend does not tell the token ids of the answer"
