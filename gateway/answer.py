"""One answer: its text, searched for stop strings and cut clean, and the tokens it stands for."""

from collections.abc import Sequence

from gateway import edit
from gateway.cut import Cut, Learned
from gateway.outlet import UNSURE, Outlet
from gateway.stops import Hit, Stops


class Answer:
    """The one choice of a request, over all its legs.

    Invariant: the text given out and the text held for stop strings are together the text of
    ``delivered``, as long as the cut is clean.
    """

    def __init__(
        self, outlet: Outlet, cut: Cut | None, stops: Stops | None, *, gives_ids: bool
    ) -> None:
        """``gives_ids``: the client is told the token ids."""
        self.delivered: list[int] = []
        self._gives_ids = gives_ids
        self.cut = cut
        self.stops = stops
        self._outlet = outlet

    def text(self, before: bytes, text: bytes, behind: bytes, ids: Sequence[int]) -> Hit | None:
        """Take a token frame: what is in front of its text, its text (escaped), what is behind.

        A frame that completes a stop string is not given out: its text is in the Hit.
        """
        if self.cut is not None:
            if not text:
                self.cut.hold(before + behind, ids)
                return None
            self._clean(self.cut, ids)
        self._deliver(ids)
        self._mark()
        if self.stops is not None:
            found = self.stops.feed(edit.unquoted(text), len(self.delivered))
            if isinstance(found, Hit):
                return found
            text = edit.quoted(found)
        self._outlet.event(before + text + behind)
        return None

    def other(self, frame: bytes, ids: Sequence[int], *, speaks: bool) -> None:
        """Take a frame without text of the answer: reasoning, a tool call, or nothing."""
        if self.cut is not None:
            if not speaks:
                self.cut.hold(frame, ids)
                return
            self._clean(self.cut, ids)
        self._deliver(ids)
        self._mark()
        if frame:
            self._outlet.event(frame)

    def last(self, text: str, ids: Sequence[int]) -> str | Hit:
        """Take the frame that truly ends the answer; return its text."""
        if self.cut is not None:
            self._release(self.cut)
        self._deliver(ids)
        self._outlet.mark = len(self.delivered)
        if self.stops is None:
            return text
        found = self.stops.feed(text, len(self.delivered))
        return found if isinstance(found, Hit) else found + self.rest()

    def rest(self) -> str:
        """Return the text that is held for stop strings, when the answer ends here."""
        return self.stops.rest("") if self.stops else ""

    def learn(self, learned: Learned) -> None:
        """Take over what another backend's streams have taught."""
        if self.cut is not None:
            self.cut.whole = learned.whole

    def drop(self) -> None:
        """Forget what was not delivered."""
        if self.cut is not None:
            self.cut.drop()

    @property
    def is_plain(self) -> bool:
        """Whether a frame of one token can go out as it is, and a cut behind it is clean."""
        return self.stops is None and (self.cut is None or (self.cut.clean and not self.cut.holds))

    def _mark(self) -> None:
        clean = self.cut is None or self.cut.clean
        self._outlet.mark = len(self.delivered) if clean else UNSURE

    def _clean(self, cut: Cut, ids: Sequence[int]) -> None:
        cut.text(ids)
        if cut.holds:
            self._release(cut)

    def _release(self, cut: Cut) -> None:
        for frame, ids in cut.release():
            self._deliver(ids)
            if frame:
                if self._gives_ids:
                    # The text so far is that of fewer tokens than the client knows of.
                    self._outlet.mark = UNSURE
                self._outlet.event(frame)

    def _deliver(self, ids: Sequence[int]) -> None:
        self.delivered += ids
        self._outlet.stands_for(ids)
