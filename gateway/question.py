"""What was asked and is not followed yet, as it is kept; see docs/resume.md, From a browser."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.ask import Ask, Route, ask

RESPOND_ASYNC = "respond-async"


@dataclass(frozen=True)
class Question:
    """A request that is answered when somebody follows its stream.

    ``key``: what names it for its caller, so that it is charged once. ``created``: in seconds since
    1970. ``body`` is as sent.
    """

    request_id: str
    caller: str
    key: str
    route: Route
    body: bytes
    forbidden: bool
    created: int

    @property
    def ask(self) -> Ask:
        """What is asked for. Raises AskError."""
        return ask(self.route, self.body, forbid_resume=self.forbidden)

    def to_bytes(self) -> bytes:
        """All but whose it is, which stands beside it."""
        head = {
            "key": self.key,
            "route": self.route.value,
            "forbidden": self.forbidden,
            "created": self.created,
        }
        return json.dumps(head).encode() + b"\n" + self.body

    @classmethod
    def from_bytes(cls, plain: bytes, request_id: str, caller: str) -> "Question":
        """The question of which ``to_bytes`` made these."""
        head, _, body = plain.partition(b"\n")
        said = json.loads(head)
        return cls(
            request_id=request_id,
            caller=caller,
            key=said["key"],
            route=Route(said["route"]),
            body=body,
            forbidden=said["forbidden"],
            created=said["created"],
        )


def prefers_later(headers: Mapping[str, str]) -> bool:
    """Whether the answer may be followed later (RFC 7240); names of headers are in lower case."""
    preferences = headers.get("prefer", "").split(",")
    return any(one.partition(";")[0].strip().lower() == RESPOND_ASYNC for one in preferences)
