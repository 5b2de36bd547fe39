"""What a Prometheus has kept: which targets serve vLLM, and their raw samples, piece by piece.

A range selector in an instant query gives samples as they were scraped; ``query_range`` would
give them at steps of its own. Pieces are as long as Prometheus and one answer's limit allow.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ValidationError

from exporter.backtest.looks import UP, Series
from exporter.backtest.target import NAME, Target, quoted
from fleet.backend import Backend, Kind
from fleet.fetch import Failure, Fetcher, Trouble
from fleet.reading import START_TIME, VLLM_NAMES

TIMEOUT_SECONDS = 120.0
PIECE_SECONDS = 6 * 3600
SHORTEST_PIECE_SECONDS = 300
# A query of ours is not wrong in itself: too many samples, or too long for one query.
TOO_MUCH = (422, 503)

Of = TypeVar("Of")


class CannotTellError(Exception):
    """Nothing can be said; the sentence names the Prometheus and the reason."""


class _Answer(BaseModel, Generic[Of]):
    data: Of
    warnings: list[str] = []


class _Kept(BaseModel):
    metric: dict[str, str]
    values: list[tuple[float, float]] = []


class _Matrix(BaseModel):
    result: list[_Kept]


@dataclass(frozen=True)
class Piece:
    """The series of one target from after ``start`` to ``end``, Unix seconds."""

    start: int
    end: int
    series: list[Series]


class Prometheus:
    """Asks one Prometheus, or what speaks its API."""

    def __init__(self, url: str, token_file: Path | None) -> None:
        """``token_file`` holds the bearer token, which is sent there and shown nowhere."""
        self.url = url
        self.warnings: set[str] = set()
        # It is no backend, but one bounded exchange is like the other.
        peer = Backend("prometheus", url, Kind.PROXY, 0.0, 0.0, api_key_file=token_file)
        self._fetcher = Fetcher(peer, "backtest", key_setting="--bearer-token-file")
        self._piece = PIECE_SECONDS

    def close(self) -> None:
        """Close the connections."""
        self._fetcher.close()

    def targets(self, start: int, end: int, match: str) -> dict[Target, frozenset[str]]:
        """The targets with vLLM's series between two times, and the names of these.

        Raises CannotTellError.
        """
        chosen = "".join(f",{part}" for part in [match] if part)
        selector = f"{{{NAME}=~{quoted(VLLM_NAMES)}{chosen}}}"
        answer = self._get("series", {"match[]": selector, "start": start, "end": end})
        if isinstance(answer, Failure):
            raise CannotTellError(self._why(answer))
        names: dict[Target, set[str]] = {}
        for series in self._read(_Answer[list[dict[str, str]]], answer).data:
            names.setdefault(Target.of(series), set()).add(series.get(NAME, ""))
        return {target: frozenset(found) for target, found in sorted(names.items())}

    def pieces(
        self, target: Target, names: frozenset[str], start: int, end: int
    ) -> Iterator[Piece]:
        """The raw samples of a target's series, in order of time. Raises CannotTellError."""
        selector = target.selector({*names, UP, START_TIME})
        while start < end:
            until = min(start + self._piece, end)
            query = {"query": f"{selector}[{until - start}s]", "time": until}
            answer = self._get("query", query)
            if isinstance(answer, Failure):
                if not _is_too_much(answer) or until - start <= SHORTEST_PIECE_SECONDS:
                    raise CannotTellError(self._why(answer))
                self._piece = max((until - start) // 2, SHORTEST_PIECE_SECONDS)
                continue
            kept = self._read(_Answer[_Matrix], answer).data.result
            yield Piece(start, until, [Series(one.metric, one.values) for one in kept])
            start = until

    def _get(self, what: str, query: dict[str, Any]) -> str | Failure:
        endpoint = f"/api/v1/{what}"
        path = f"{endpoint}?{urlencode(query)}"
        page = self._fetcher.get(path, timeout=TIMEOUT_SECONDS)
        if isinstance(page, Failure):
            # The query is ours and long.
            return replace(page, why=page.why.replace(path, endpoint))
        return page.text

    def _read(self, kind: type[_Answer[Of]], text: str) -> _Answer[Of]:
        try:
            answer = kind.model_validate_json(text)
        except ValidationError:
            said = "its answer is not one of Prometheus' API"
            raise CannotTellError(f"{self.url}: {said}") from None
        self.warnings.update(answer.warnings)
        return answer

    def _why(self, failure: Failure) -> str:
        """One sentence that says what to do, where that is known."""
        if failure.kind is Trouble.NO_KEY:
            return failure.why
        match failure.kind, failure.status:
            case Trouble.UNAUTHORISED, status:
                why = f"HTTP {status}: it wants a token that it accepts (--bearer-token-file)"
            case Trouble.NOT_FOUND, status:
                why = f"HTTP {status}: there is no API of a Prometheus at this URL"
            case _, 400:
                why = "HTTP 400: it does not accept the selector of --match"
            case _, 422:
                shortest = f"{SHORTEST_PIECE_SECONDS} s of one target"
                why = f"HTTP 422: even {shortest} are too much for it (its --query.max-samples?)"
            case Trouble.UNREADABLE, None:
                why = f"{failure.why}; choose fewer targets with --match"
            case _:
                why = failure.why
        return f"{self.url}: {why}"


def _is_too_much(failure: Failure) -> bool:
    too_long = failure.kind in (Trouble.TIMEOUT, Trouble.UNREADABLE)
    return too_long or failure.status in TOO_MUCH
