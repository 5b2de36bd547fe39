"""From what is remembered of a backend to its state, and one sentence why, with its numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fleet.backend import Backend, Kind
from fleet.engine import EngineHistory
from fleet.fetch import Trouble
from fleet.history import History
from fleet.progress import Progress
from fleet.state import State

WAITS_OF_PROOF = 2
WAITS_OF_STARVATION = 4

FAILURE_STATES: Mapping[Trouble, State] = {
    Trouble.REFUSED: State.DOWN,
    Trouble.UNREACHABLE: State.DOWN,
    Trouble.RESET: State.DOWN,
    Trouble.HTTP_ERROR: State.DOWN,
    Trouble.TIMEOUT: State.UNRESPONSIVE,
    Trouble.NOT_FOUND: State.NO_METRICS,
    Trouble.UNREADABLE: State.UNKNOWN,
    # Mistakes of configuration, which are not the server's.
    Trouble.UNAUTHORISED: State.UNKNOWN,
    Trouble.REDIRECTED: State.UNKNOWN,
    Trouble.NO_KEY: State.UNKNOWN,
}

# The state of a backend with several engines is the one of theirs that most wants a person.
WORST_FIRST = (
    State.STUCK,
    State.UNKNOWN,
    State.STARVED,
    State.QUIET,
    State.RESTARTED,
    State.STARTING,
    State.PAUSED,
    State.BUSY,
    State.SLEEPING,
    State.IDLE,
)


@dataclass(frozen=True)
class Verdict:
    """A state and one sentence why, which begins with the state's name."""

    state: State
    why: str


@dataclass(frozen=True)
class Judgement:
    """The verdict on a backend, and on each of its engines as far as they could be read."""

    backend: Verdict
    engines: MappingProxyType[str, Verdict]


def judge(history: History, backend: Backend) -> Judgement:
    """What a backend's history comes to; total over all histories."""
    failure = _of_failure(history)
    if failure is not None:
        return Judgement(failure, MappingProxyType({}))
    if backend.kind is Kind.PROXY:
        return _whole(State.PROXY, "declared a proxy, which has no engine of its own; it answers")
    if history.reading is None or history.seen_at is None:
        return _whole(State.UNKNOWN, "not read yet")
    if not history.engines:
        return _whole(State.NO_METRICS, "/metrics answers, but without any metric of a vLLM engine")
    engines = {
        name: _engine_verdict(engine, name, history, backend)
        for name, engine in history.engines.items()
    }
    worst = min(engines, key=lambda name: WORST_FIRST.index(engines[name].state))
    of_backend = engines[worst]
    if len(engines) > 1:
        _, _, why = of_backend.why.partition(": ")
        of_backend = _verdict(of_backend.state, f"engine {worst}: {why}")
    whole = _of_the_whole(history)
    if whole is not None:
        # What is wrong with the backend as a whole is wrong with each of its engines.
        return Judgement(whole, MappingProxyType(dict.fromkeys(engines, whole)))
    return Judgement(of_backend, MappingProxyType(engines))


def _verdict(state: State, why: str) -> Verdict:
    return Verdict(state, f"{state}: {why}")


def _whole(state: State, why: str) -> Judgement:
    return Judgement(_verdict(state, why), MappingProxyType({}))


def _of_failure(history: History) -> Verdict | None:
    if history.failure is None:
        return None
    times = "" if history.failures == 1 else f", {history.failures} reads in a row"
    if history.dead:
        return _verdict(State.ENGINE_DEAD, f"/health answers 503; {history.failure.why}{times}")
    return _verdict(FAILURE_STATES[history.failure.kind], f"{history.failure.why}{times}")


def _of_the_whole(history: History) -> Verdict | None:
    if history.behind_proxy:
        seen = len(set(history.start_times))
        return _verdict(
            State.BEHIND_PROXY,
            f"{seen} processes answer by turns at this address (by their start times); "
            "list each with its own URL, they cannot be judged through a proxy",
        )
    if history.dead:
        return _verdict(State.ENGINE_DEAD, "/health answers 503, the engine process is gone")
    if history.carried_over and _stands_still(history):
        return _verdict(
            State.UNKNOWN,
            "no engine series has moved since it was away and there is no start time: a "
            "predecessor's page, perhaps (is PROMETHEUS_MULTIPROC_DIR wiped at start?)",
        )
    if history.just_restarted:
        return _verdict(State.RESTARTED, f"another process than before: {history.restart_reason}")
    return _of_pause(history)


def _of_pause(history: History) -> Verdict | None:
    if history.paused:
        return _verdict(State.PAUSED, f"/is_paused says so; {_pending_in_all(history)}")
    if history.reading is not None and history.reading.updating and _stands_still(history):
        return _verdict(State.PAUSED, f"weights are being updated; {_pending_in_all(history)}")
    return None


def _stands_still(history: History) -> bool:
    """Whether work is shown as pending and the last look saw nothing move."""
    pending = any(engine.anything_pending for engine in history.engines.values())
    return pending and not history.moved


def _engine_verdict(
    engine: EngineHistory, name: str, history: History, backend: Backend
) -> Verdict:
    now = engine.reading
    if not now.pending_is_readable:
        return _verdict(State.UNKNOWN, "running or waiting is NaN or malformed on the page")
    if now.awake is False:
        return _verdict(State.SLEEPING, f"put to sleep, {_pending(engine)}")
    silence = _of_silence(engine, backend.wait)
    if silence is None and _is_silent(engine):
        silence = _of_excuse(engine, name, history, backend)
    return silence or _of_activity(engine)


def _of_excuse(
    engine: EngineHistory, name: str, history: History, backend: Backend
) -> Verdict | None:
    """The state of a silent engine whose silence does not count; None if it does."""
    now = history.seen_at or 0.0
    if engine.reading.cold and now - engine.first_seen < backend.warm_up:
        compiling = "nothing has come out of this process yet: it compiles, perhaps"
        until = f"silence counts from {backend.warm_up:g} s after it was first seen"
        return _verdict(State.STARTING, f"{_what_is_pending(engine)}, and {compiling}; {until}")
    still = now - engine.still_since
    doubt = _doubt(engine, history, name) if still >= backend.wait else None
    if doubt is None:
        return None
    nothing = f"{_what_is_pending(engine)}, and nothing has moved for {still:.0f} s, but"
    return _verdict(State.UNKNOWN, f"{nothing} {doubt}")


def _is_silent(engine: EngineHistory) -> bool:
    """Whether it has something to do and the last look saw nothing move."""
    return not engine.moved and (engine.anything_pending or engine.asked is not None)


def _doubt(engine: EngineHistory, history: History, name: str) -> str | None:
    """Why the page cannot prove that a silent engine hangs; None if it can."""
    reading = history.reading
    if reading is None:
        return None
    if reading.updates_weights and history.paused is None:
        return "weights are updated here at times, and /is_paused does not say that it is running"
    if not engine.anything_pending:
        return None
    if not engine.proven_alive and reading.start_time is None:
        return "nothing ever has and there is no start time: a predecessor's page, perhaps"
    if reading.engines[name].kv_usage is None:
        return "the page does not show KV usage, without which a long prefill looks the same"
    return None


def _of_silence(engine: EngineHistory, wait: float) -> Verdict | None:
    if engine.quiet.seconds >= WAITS_OF_PROOF * wait:
        proof = f"two waits are {WAITS_OF_PROOF * wait:g} s"
        return _verdict(State.STUCK, f"{_silence(engine)} ({proof})")
    if engine.starved.seconds >= WAITS_OF_STARVATION * wait:
        no_work = f"{_pending(engine)} and no work done for {engine.starved.seconds:.0f} s"
        return _verdict(
            State.STARVED, f"{no_work} (four waits are {WAITS_OF_STARVATION * wait:g} s)"
        )
    if engine.quiet.seconds >= wait:
        proof = f"proven stuck at {WAITS_OF_PROOF * wait:g} s"
        return _verdict(State.QUIET, f"{_silence(engine)}; {proof}")
    return None


def _of_activity(engine: EngineHistory) -> Verdict:
    step = engine.progress
    if step is not None and engine.moved:
        done = f"{_done(engine, step)} in {engine.over:.1f} s"
        return _verdict(State.BUSY, f"{_pending(engine)}, {done}")
    if engine.anything_pending:
        return _verdict(State.BUSY, _pending(engine) if step is None else _silence(engine))
    if engine.asked is not None:
        return _verdict(State.IDLE, _silence(engine))
    said = f"; short request: {engine.answer.why}" if engine.answer is not None else ""
    return _verdict(State.IDLE, f"nothing running or waiting{said}")


def _pending(engine: EngineHistory) -> str:
    now = engine.reading
    text = f"{now.running or 0:.0f} running"
    if now.waiting:
        text += f", {now.waiting:.0f} waiting"
        if now.waiting_deferred:
            text += f" ({now.waiting_deferred:.0f} for something outside the engine)"
    return text


def _pending_in_all(history: History) -> str:
    of_each = {name: _pending(engine) for name, engine in history.engines.items()}
    if len(of_each) == 1:
        return next(iter(of_each.values()))
    return "; ".join(f"engine {name}: {pending}" for name, pending in of_each.items())


def _what_is_pending(engine: EngineHistory) -> str:
    return "our short request is unanswered" if engine.asked is not None else _pending(engine)


def _silence(engine: EngineHistory) -> str:
    return f"{_what_is_pending(engine)}, and nothing moved for {engine.quiet.seconds:.0f} s"


def _done(engine: EngineHistory, step: Progress) -> str:
    if step.steps > 0 or step.generation_tokens > 0:
        return f"{_count(step.generation_tokens, 'token')} and {_count(step.steps, 'step')}"
    if step.worked and engine.reading.kv_usage is not None:
        return f"no token out but KV usage up to {engine.reading.kv_usage:.2%} (a prompt is read)"
    return f"no work done, but {', '.join(step.moved)} moved"


def _count(number: float, noun: str) -> str:
    return f"{number:.0f} {noun}{'' if number == 1 else 's'}"
