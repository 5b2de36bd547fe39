"""The text of a page that gives a reading, as vLLM writes the lines that are read."""

from collections.abc import Iterator

from fleet.reading import (
    COUNTERS,
    GAUGES,
    SLEEP_STATE,
    START_TIME,
    WAITING,
    WAITING_BY_REASON,
    EngineReading,
    Reading,
)

# What newer releases call otherwise has one line here, under its present name.
_FORMER = "vllm:gpu_"


def text(reading: Reading) -> str:
    """The lines of all engines and of the process."""
    lines = []
    if reading.start_time is not None:
        lines.append(f"{START_TIME} {reading.start_time!r}")
    for name, engine in reading.engines.items():
        labels = f'engine="{name}",model_name="m"'
        lines += [f"{sample}{{{more}{labels}}} {value!r}" for sample, more, value in _of(engine)]
    return "\n".join(lines) + "\n"


def _of(engine: EngineReading) -> Iterator[tuple[str, str, float]]:
    for sample, field in {**GAUGES, **COUNTERS}.items():
        value = getattr(engine, field)
        if value is not None and not sample.startswith(_FORMER):
            yield sample, "", value
    for reason, field in WAITING.items():
        value = getattr(engine, field)
        if value is not None:
            yield WAITING_BY_REASON, f'reason="{reason}",', value
    if engine.awake is not None:
        yield SLEEP_STATE, 'sleep_state="awake",', float(engine.awake)
