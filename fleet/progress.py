"""What moved between two readings, and whether the same process wrote both."""

from dataclasses import dataclass

from fleet.reading import COUNTED, MEASURED, EngineReading, Reading

WORK = ("steps", "step_tokens", "generation_tokens", "prompt_tokens", "finished", "flops")


@dataclass(frozen=True)
class Progress:
    """What one engine did between two readings of the same process.

    ``moved`` names everything the engine wrote anew: any entry is a sign of life. ``worked`` says
    that work got done: a counter of work rose, or KV usage passed ``kv_peak``, its highest value
    since the last output token. Steps of a long prefill yield no token, so no counter rises in
    them; KV usage does, block by block (measured on 0.32.0: 63 s of it).
    """

    moved: tuple[str, ...]
    worked: bool
    steps: float
    generation_tokens: float

    @property
    def sign_of_life(self) -> bool:
        """Whether the engine wrote anything at all."""
        return bool(self.moved)


def progress(before: EngineReading, after: EngineReading, kv_peak: float | None) -> Progress:
    """Compare two readings of one engine of the same process.

    A field that is absent or unreadable in ``after`` shows nothing; one that appears is a sign of
    life (in multiprocess mode the gauges are absent until the first step).
    """
    moved = tuple(
        name
        for name in MEASURED
        if getattr(after, name) is not None and getattr(after, name) != getattr(before, name)
    )
    rose = any(name in moved and _rise(before, after, name) > 0 for name in WORK)
    peak = before.kv_usage if kv_peak is None else kv_peak
    filled = "kv_usage" in moved and (after.kv_usage or 0.0) > (peak or 0.0)
    return Progress(
        moved=moved,
        worked=rose or filled,
        steps=_rise(before, after, "steps"),
        generation_tokens=_rise(before, after, "generation_tokens"),
    )


def _rise(before: EngineReading, after: EngineReading, name: str) -> float:
    new = getattr(after, name)
    return 0.0 if new is None else float(new - (getattr(before, name) or 0.0))


def restarted(before: Reading, after: Reading) -> str | None:
    """Why ``after`` is another process than ``before``, in a few words; None if it is the same.

    The start time tells, where there is one; a counter that fell tells in any case.
    """
    if before.start_time is not None and after.start_time is not None:
        if before.start_time != after.start_time:
            return f"start time changed from {before.start_time:.0f} to {after.start_time:.0f}"
    elif before.start_time != after.start_time:
        return "its start time is shown by one reading and not by the other"
    for engine, new in after.engines.items():
        old = before.engines.get(engine)
        if old is None:
            continue
        for name in COUNTED:
            was, now = getattr(old, name), getattr(new, name)
            if was is not None and now is not None and now < was:
                return f"{name} of engine {engine} fell from {was:.0f} to {now:.0f}"
    return None
