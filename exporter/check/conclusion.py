"""What a check comes to: healthy, proven stuck or dead, or no verdict possible."""

from dataclasses import dataclass
from enum import Enum

from fleet.answer import Result
from fleet.engine import EngineHistory
from fleet.fetch import Trouble
from fleet.history import History
from fleet.judgement import Judgement, Verdict
from fleet.state import State

# One look may meet a server in the moment in which it ends by itself, or a lost connection.
LOOKS_OF_TROUBLE = 2
# Where something is wrong that the next look will not change.
HOPELESS = (State.NO_METRICS, State.BEHIND_PROXY, State.PROXY)
ON_PURPOSE = (State.SLEEPING, State.PAUSED)
NOT_THE_SERVER = (State.UNKNOWN, State.UNRESPONSIVE, State.DOWN, *HOPELESS)


class Outcome(Enum):
    """What a check comes to; the value is what it is called."""

    HEALTHY = "healthy"
    PROVEN = "proven"
    CANNOT_JUDGE = "cannot_judge"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Looked:
    """A backend after some looks; ``dead_looks`` counts the last ones in a row that saw it dead.

    ``asks``: whether idle engines are sent the short request. ``seconds``: since the first look.
    """

    history: History
    judgement: Judgement
    dead_looks: int
    asks: bool
    seconds: float


def outcome(looked: Looked, patience: float) -> Outcome:
    """The outcome after the last look, UNDECIDED while looking on may still tell.

    ``patience`` is in seconds: a server that does not answer in time for so long cannot be judged.
    """
    history, judgement = looked.history, looked.judgement
    verdicts = judgement.engines.values()
    if any(verdict.state is State.STUCK for verdict in verdicts):
        return Outcome.PROVEN
    if looked.dead_looks >= LOOKS_OF_TROUBLE:
        return Outcome.PROVEN
    if judgement.backend.state in HOPELESS:
        return Outcome.CANNOT_JUDGE
    if history.failure is not None:
        return _of_failure(history, history.failure.kind, looked.seconds, patience)
    healthy = bool(verdicts) and all(
        _is_healthy(verdict, history.engines[name], asks=looked.asks)
        for name, verdict in judgement.engines.items()
    )
    return Outcome.HEALTHY if healthy else Outcome.UNDECIDED


def _of_failure(history: History, kind: Trouble, seconds: float, patience: float) -> Outcome:
    if kind is Trouble.TIMEOUT:
        return Outcome.CANNOT_JUDGE if seconds >= patience else Outcome.UNDECIDED
    many = history.failures >= LOOKS_OF_TROUBLE
    return Outcome.CANNOT_JUDGE if many else Outcome.UNDECIDED


def _is_healthy(verdict: Verdict, engine: EngineHistory, *, asks: bool) -> bool:
    if verdict.state in ON_PURPOSE:
        return True
    if verdict.state is State.BUSY:
        return engine.moved
    answered = engine.answer is not None and engine.answer.result is Result.ANSWERED
    return verdict.state is State.IDLE and engine.asked is None and (answered or not asks)


def settled(looked: Looked) -> Outcome:
    """The outcome of one call of several, which may have to leave it undecided."""
    state = looked.judgement.backend.state
    now = outcome(looked, patience=0.0)
    if now is not Outcome.UNDECIDED:
        return now
    return Outcome.CANNOT_JUDGE if state in NOT_THE_SERVER else Outcome.UNDECIDED
