"""The short request: one token asked of an engine on which nothing else is in flight.

It is the only way to tell a frozen engine from an idle one: measured on vLLM 0.32.0, an engine that
is frozen while idle shows running 0 and waiting 0 and /health 200, also when requests arrive.
"""

import json
from dataclasses import dataclass
from enum import StrEnum

from fleet.fetch import Failure, Fetcher, Page, Trouble

COMPLETIONS = "/v1/completions"
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
    may be judged by it.
    """

    result: Result
    seconds: float
    why: str


def ask(fetcher: Fetcher, engine: str | None, *, timeout: float) -> Answer:
    """Ask one token of one engine and wait for it, at most ``timeout`` seconds.

    ``engine`` chooses the data-parallel rank; None leaves the choice to the server.
    """
    model = served_model(fetcher, timeout=min(timeout, MODELS_TIMEOUT))
    if isinstance(model, Failure):
        return Answer(Result.ERROR, 0.0, f"no model to ask: {model.why}")
    body = {"model": model, "prompt": "1", "max_tokens": 1, "temperature": 0}
    headers = {} if engine is None else {"X-data-parallel-rank": engine}
    match fetcher.post(COMPLETIONS, body, headers, timeout=timeout):
        case Page(text=text, seconds=seconds):
            if _has_choices(text):
                return Answer(Result.ANSWERED, seconds, f"answered in {seconds:.2f} s")
            return Answer(Result.ERROR, 0.0, f"{COMPLETIONS} answered something else")
        case Failure(kind=Trouble.TIMEOUT):
            return Answer(Result.UNANSWERED, timeout, f"not answered within {timeout:g} s")
        case Failure(why=why):
            return Answer(Result.ERROR, 0.0, why)


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


def _has_choices(text: str) -> bool:
    """Whether it is a completion: a proxy may answer 200 with something of its own."""
    try:
        return bool(json.loads(text)["choices"])
    except NOT_SO:
        return False
