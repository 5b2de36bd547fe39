"""One gateway's admin API, as docs/gateway-admin.md has it: bounded questions, parsed answers.

The token is read anew for each question and goes to the gateway alone: no redirect is followed.
"""

import json
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from fleet.backend import Backend, Kind
from fleet.fetch import Failure, Fetcher, Page, Trouble

BACKENDS = "/admin/backends"


class Traffic(StrEnum):
    """What a gateway says of its traffic to a backend."""

    UP = "up"
    DRAINING = "draining"
    DRAINED = "drained"
    DOWN = "down"


@dataclass(frozen=True)
class Said:
    """What a gateway answered: how many of its streams are with the backend."""

    traffic: Traffic
    in_flight: int

    @property
    def is_empty(self) -> bool:
        """Whether no stream is there and none will come."""
        return self.in_flight == 0 and self.traffic is not Traffic.UP


@dataclass(frozen=True)
class NoAnswer:
    """Why a gateway said nothing that counts, in one sentence."""

    why: str


class Gateway:
    """Asks one gateway about one backend. Belongs to one thread."""

    def __init__(self, url: str, backend: str, token_file: Path | None) -> None:
        """``url`` is the gateway's base URL, ``backend`` the backend's name."""
        # It is no backend, but one bounded exchange is like the other.
        self._peer = Backend("gateway", url, Kind.PROXY, 0.0, 0.0, api_key_file=token_file)
        self._backend = backend
        self._path = f"{BACKENDS}/{quote(backend, safe='')}"

    def drain(self, timeout: float) -> Said | NoAnswer:
        """Ask it to move the backend's streams away, within ``timeout`` seconds."""
        return self._ask("/drain", timeout)

    def undrain(self, timeout: float) -> Said | NoAnswer:
        """Ask it to send requests there again, within ``timeout`` seconds."""
        return self._ask("/undrain", timeout)

    def look(self, timeout: float) -> Said | NoAnswer:
        """Ask it how it stands, within ``timeout`` seconds."""
        return self._ask(None, timeout)

    def _ask(self, order: str | None, timeout: float) -> Said | NoAnswer:
        if self._peer.api_key_file is None:
            return NoAnswer("gateway_token_file: is not set")
        own = Fetcher(self._peer, "remediator", follow=False, key_setting="gateway_token_file")
        with closing(own) as fetcher:
            if order is None:
                answer = fetcher.get(self._path, timeout=timeout)
            else:
                answer = fetcher.post(self._path + order, {}, {}, timeout=timeout)
        if isinstance(answer, Failure):
            return self._no_answer(answer)
        return self._parsed(answer)

    def _parsed(self, answer: Page) -> Said | NoAnswer:
        """What an answer says, if it is of this backend and every field is what it ought to be."""
        try:
            fields = json.loads(answer.text)
            name, traffic = fields["backend"], Traffic(fields["state"])
            in_flight = fields["in_flight"]
        except (ValueError, LookupError, TypeError, RecursionError):
            return NoAnswer("its answer is not one of the gateway's admin API")
        if name != self._backend:
            return NoAnswer("its answer is about another backend")
        if type(in_flight) is not int or in_flight < 0:
            return NoAnswer("its answer has no number of streams in_flight")
        return Said(traffic, in_flight)

    def _no_answer(self, failure: Failure) -> NoAnswer:
        match failure.kind:
            case Trouble.UNAUTHORISED:
                return NoAnswer(f"it does not accept our token (HTTP {failure.status})")
            case Trouble.NOT_FOUND:
                return NoAnswer(f"it does not know {self._backend} (HTTP {failure.status})")
            case _:
                return NoAnswer(failure.why)
