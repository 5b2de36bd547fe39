"""The short way: one token's frame of the known shape, from the backend's bytes to the client's.

Nearly all frames of a stream are such. All that is done with them is done here, in one function:
what a frame costs is mostly calls.
"""

from gateway.answer import Answer
from gateway.outlet import Outlet
from gateway.shape import Shape


class Quick:
    """Of one leg; good from a clean cut on, with nothing held back, until another frame comes.

    ``tokens``: how many the leg has given, to be set before.
    """

    __slots__ = (
        "_before",
        "_behind",
        "_between",
        "_between_size",
        "_delivered",
        "_event",
        "_gives_ids",
        "_marks",
        "_prompt_tokens",
        "_start",
        "_whole",
        "tokens",
    )

    def __init__(self, shape: Shape, answer: Answer, outlet: Outlet) -> None:
        self.tokens = 0
        self._before, self._between = shape.before, shape.between
        self._start, self._between_size = len(shape.before), len(shape.between)
        self._behind = shape.behind + b"\n\n"
        self._prompt_tokens = shape.prompt_tokens
        self._delivered, self._marks = answer.delivered, outlet.marks
        self._whole = answer.cut.whole if answer.cut is not None else set()
        self._gives_ids = shape.tail_before_ids is not None
        self._event = outlet.template(*shape.parts)

    def event(self, data: bytes) -> bytes | None:
        """Return the client's event; the token is the last delivered. None: nothing was taken.

        ``data``: what was read. It is one event, or another way has to be gone.
        """
        start = self._start
        end = data.find(self._between, start)
        ids_start = end + self._between_size
        ids_end = data.find(b"]", ids_start)
        text = data[start:end]
        written = data[ids_start:ids_end]
        tokens = self.tokens + 1
        if (
            end <= start
            or not data.startswith(self._before)
            or data[ids_end:] != self._behind % (self._prompt_tokens + tokens, tokens)
            or b'"' in text  # it may end the text, or not: that is looked into elsewhere
            or not written.isdigit()
        ):
            return None
        self.tokens = tokens
        token = int(written)
        self._whole.add(token)
        delivered, marks = self._delivered, self._marks
        delivered.append(token)
        marks.append(len(delivered))
        if self._gives_ids:
            return self._event % (len(marks), text, written)
        return self._event % (len(marks), text)
