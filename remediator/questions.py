"""The questions of a decision by their names, in order, and what each asks in words for people."""

from collections.abc import Mapping

from remediator import policy, verdict
from remediator.incident import Origin

ORDER: Mapping[Origin, tuple[str, ...]] = {
    Origin.ALERT: tuple(
        question.__name__ for question in (*policy.QUESTIONS[Origin.ALERT], *verdict.QUESTIONS)
    ),
    Origin.PERSON: tuple(question.__name__ for question in policy.QUESTIONS[Origin.PERSON]),
}
_WORDS: Mapping[str, str] = {
    question.__name__: (question.__doc__ or question.__name__).splitlines()[0].replace("``", "")
    for question in (*sum(policy.QUESTIONS.values(), ()), *verdict.QUESTIONS)
}


def asks(name: str) -> str:
    """What the question of this name asks; the name itself where there is none any more."""
    return _WORDS.get(name, name)


def not_asked(origin: Origin, asked: int) -> tuple[str, ...]:
    """The names of those that come after the first ``asked``."""
    return ORDER[origin][asked:]
