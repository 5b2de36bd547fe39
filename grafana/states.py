"""How the states look on a dashboard: a number, a word and a colour each."""

from dataclasses import dataclass

from grafana_foundation_sdk.models.dashboard import ValueMap, ValueMapping, ValueMappingResult

from fleet.state import State

RED, ORANGE, YELLOW, PURPLE, BLUE, GREEN, GREY = (
    "red",
    "orange",
    "yellow",
    "purple",
    "blue",
    "green",
    "text",
)


@dataclass(frozen=True)
class Look:
    """One state: ``number`` is its value on the timeline, the worse the higher."""

    state: State
    number: int
    colour: str


# Invariant: the worst is last, so that the maximum of what two exporters say is the worse of it.
BEST_FIRST = (
    (State.IDLE, "super-light-green"),
    (State.BUSY, GREEN),
    (State.PROXY, "light-blue"),
    (State.SLEEPING, "super-light-blue"),
    (State.PAUSED, "semi-dark-blue"),
    (State.STARTING, BLUE),
    (State.RESTARTED, "dark-blue"),
    (State.UNKNOWN, GREY),
    (State.NO_METRICS, "light-purple"),
    (State.BEHIND_PROXY, PURPLE),
    (State.QUIET, YELLOW),
    (State.STARVED, "light-orange"),
    (State.UNRESPONSIVE, ORANGE),
    (State.DOWN, "dark-orange"),
    (State.ENGINE_DEAD, "dark-red"),
    (State.STUCK, RED),
)
LOOKS = tuple(Look(state, i, colour) for i, (state, colour) in enumerate(BEST_FIRST, start=1))


def as_number(series: str, labels: str) -> str:
    """An expression that turns one-hot ``series`` into the number of the state it is in.

    ``labels`` are kept; ``$backend`` filters.
    """
    terms = " or ".join(
        f'{look.number} * {series}{{backend=~"$backend", state="{look.state}"}}' for look in LOOKS
    )
    return f"max by ({labels}) ({terms})"


def mappings() -> list[ValueMapping]:
    """From the numbers back to words and colours."""
    return [
        ValueMap(
            options={
                str(look.number): ValueMappingResult(
                    text=look.state, color=look.colour, index=look.number
                )
                for look in LOOKS
            }
        )
    ]
