"""A frame as it is for a client that asked one server for less than the gateway asks several."""

from gateway import closing, edit
from gateway.ask import Ask
from gateway.said import Choice, Said


class ClientView:
    """Takes out what the client did not ask for; makes later legs look like the first.

    ``identity``: id, object, created and model of the first leg, as the bytes of its frames.
    ``prompt_tokens``: of the first leg. ``tokens`` and ``characters``: what earlier legs gave.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.identity = b""
        self.prompt_tokens = 0
        self.tokens = 0
        self.characters = 0

    def of(self, frame: bytes, said: Said, one: Choice) -> bytes:
        """Return the client's frame of a choice."""
        self.identity = self.identity or edit.identity(frame)
        view = edit.with_identity(frame, self.identity)
        if not self._ask.wants_ids:
            view = edit.without_ids(view)
        elif one.prompt_ids and self.tokens:
            view = edit.without_prompt_ids(view)
        if not self._ask.wants_continuous_usage:
            view = edit.without_usage(view)
        elif self.tokens and said.completion_tokens is not None:
            view = edit.with_counts(view, self.prompt_tokens, self.tokens + said.completion_tokens)
        return edit.with_text_offsets(view, self.characters) if self.characters else view

    def usage(self, frame: bytes, completion_tokens: int) -> bytes:
        """Return the client's frame of the whole usage."""
        frame = edit.with_identity(frame, self.identity)
        if not self.tokens:
            return frame
        return edit.with_counts(frame, self.prompt_tokens, completion_tokens)

    def own_usage(self, completion_tokens: int, fingerprint: bytes) -> bytes:
        """Return such a frame where the backend gives none."""
        return closing.usage(self.identity, self.prompt_tokens, completion_tokens, fingerprint)

    def own_end(self, text: str, finish_reason: str) -> bytes:
        """Return a frame that ends the answer where the backend gives none."""
        return closing.end(self._ask, self.identity, text, finish_reason)
