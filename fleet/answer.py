"""The short request: one token, or one embedding, asked of an engine that has nothing else to do.

It is the only way to tell a frozen engine from an idle one: measured on vLLM 0.32.0, an engine that
is frozen while idle shows running 0 and waiting 0 and /health 200, also when requests arrive.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from fleet.fetch import Failure, Fetcher, Page, Trouble

COMPLETIONS = "/v1/completions"
# What a pooling model has instead: it generates nothing.
EMBEDDINGS = "/v1/embeddings"
# What a server answers to a kind of request that its model is not made for.
NOT_ITS_KIND = (400, 404, 405, 501)
MODELS = "/v1/models"
# The API server answers it without the engine. It must not take up the engine's time.
MODELS_TIMEOUT = 5.0
# What text raises that is not JSON of the expected form, or is nested too deeply to tell.
NOT_SO = (ValueError, LookupError, TypeError, RecursionError)


class Result(StrEnum):
    """What became of a short request."""

    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    ERROR = "error"


@dataclass(frozen=True)
class Answer:
    """A short request's end: ``seconds`` it took, and one sentence why.

    UNANSWERED is silence: a connection that stayed open without a complete answer. ERROR is
    everything else that is not an answer (401, 404, 429, 503, a refused connection …): nothing
    may be judged by it. ``pooling``: it was an embedding that was answered.
    """

    result: Result
    seconds: float
    why: str
    pooling: bool = False


def ask(fetcher: Fetcher, engine: str | None, *, timeout: float, pooling: bool = False) -> Answer:
    """Ask one token of one engine, or one embedding, and wait for it, at most ``timeout`` seconds.

    ``engine`` chooses the data-parallel rank; None leaves the choice to the server. ``pooling``
    says which of the two is tried first; the other follows where the server refuses the kind.
    """
    deadline = time.monotonic() + timeout
    model = served_model(fetcher, timeout=min(timeout, MODELS_TIMEOUT))
    if isinstance(model, Failure):
        return Answer(Result.ERROR, 0.0, f"no model to ask: {model.why}")
    headers = {} if engine is None else {"X-data-parallel-rank": engine}
    first, second = (_embedding, _token) if pooling else (_token, _embedding)
    answer, refused = first(fetcher, model, headers, timeout)
    if refused:
        left = max(0.0, deadline - time.monotonic())
        other, refused = second(fetcher, model, headers, left)
        return answer if refused else other
    return answer


# An answer, and whether the server refused this kind of request.
_Said = tuple[Answer, bool]


def _token(fetcher: Fetcher, model: str, headers: Mapping[str, str], timeout: float) -> _Said:
    body = {"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0}
    return _post(fetcher, COMPLETIONS, body, headers, timeout)


def _embedding(fetcher: Fetcher, model: str, headers: Mapping[str, str], timeout: float) -> _Said:
    return _post(fetcher, EMBEDDINGS, {"model": model, "input": "1"}, headers, timeout)


def _post(
    fetcher: Fetcher,
    path: str,
    body: Mapping[str, object],
    headers: Mapping[str, str],
    timeout: float,
) -> _Said:
    result = "choices" if path == COMPLETIONS else "data"
    match fetcher.post(path, body, headers, timeout=timeout):
        case Page(text=text, seconds=seconds) if _has(result, text):
            why = f"answered in {seconds:.2f} s"
            return Answer(Result.ANSWERED, seconds, why, pooling=path == EMBEDDINGS), False
        case Page():
            return Answer(Result.ERROR, 0.0, f"{path} answered something else"), False
        case Failure(kind=Trouble.TIMEOUT):
            why = f"not answered within {timeout:g} s"
            return Answer(Result.UNANSWERED, timeout, why), False
        case Failure(why=why, status=status):
            return Answer(Result.ERROR, 0.0, why), status in NOT_ITS_KIND


def served_model(fetcher: Fetcher, *, timeout: float) -> str | Failure:
    """The first model that /v1/models lists, or why there is none."""
    page = fetcher.get(MODELS, timeout=timeout)
    if isinstance(page, Failure):
        return page
    try:
        model = json.loads(page.text)["data"][0]["id"]
    except NOT_SO:
        return Failure(Trouble.UNREADABLE, f"{MODELS} is not a list of models")
    return model if isinstance(model, str) else Failure(Trouble.UNREADABLE, f"{MODELS} has no id")


def _has(result: str, text: str) -> bool:
    """Whether it is an answer: a proxy may answer 200 with something of its own."""
    try:
        return bool(json.loads(text)[result])
    except NOT_SO:
        return False
