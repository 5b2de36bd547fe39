"""Up to which token an answer can go on elsewhere, told without a tokenizer.

A cut is clean when the text of the tokens in front of it ends with a whole character. Going on
from another one loses or repeats characters; vLLM 0.32.0 was seen to give out the whole prompt as
text (its issues 48853, 48854). vLLM decodes token by token and gives out nothing while the text
ends in an unfinished character. Hence:

1. A frame of ONE token with text: the text decoded so far ends with a whole character. Clean.
2. A frame without text: unknown. It is held back, not given out and not billed, until a frame with
   text follows. When none does, its tokens are dropped and generated anew.
3. A frame of several tokens with text: only the last token decides, and which one put out the text
   is not told. Clean if that token is known as whole: once, as the only token of its frame and
   from a clean state, it put out text. Then the last character of that text lies within the token,
   so after any other tokens, too, it ends with a whole character. Otherwise in doubt: the answer
   goes on, but not elsewhere, until a frame is clean again.

Limits: the argument is about text that is given out as it is decoded. It does not hold where
something behind the decoder holds text back: the backend's own search for stop strings (so stop
strings are searched here) and parsers of tools (so these answers do not go on elsewhere).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Learned:
    """What the streams of one model on one backend teach the ones that follow.

    ``whole``: tokens that end with a whole character. ``fingerprint``: the member
    ``system_fingerprint`` of this backend's frames with its comma; None while unknown.
    """

    whole: set[int] = field(default_factory=set)
    fingerprint: bytes | None = None


class Cut:
    """Where one answer can be cut.

    Invariant: what was released ends at a clean cut, or ``clean`` is False.
    """

    def __init__(self, whole: set[int]) -> None:
        self.whole = whole
        self.clean = True
        self._held: list[tuple[bytes, Sequence[int]]] = []

    @property
    def holds(self) -> bool:
        """Whether frames wait for text."""
        return bool(self._held)

    def hold(self, frame: bytes, ids: Sequence[int]) -> None:
        """Keep a frame without text; empty bytes stand for one that the client does not get."""
        self._held.append((frame, ids))

    def release(self) -> list[tuple[bytes, Sequence[int]]]:
        """Give what was held; text follows it, or the end."""
        held, self._held = self._held, []
        return held

    def text(self, ids: Sequence[int]) -> None:
        """Note the tokens of a frame with text; call it before what is held is released."""
        if len(ids) == 1:
            if self.clean and not self._held:
                self.whole.add(ids[0])
            self.clean = True
        else:
            self.clean = bool(ids) and ids[-1] in self.whole

    def drop(self) -> None:
        """Forget what was held: it is generated anew."""
        self._held.clear()
