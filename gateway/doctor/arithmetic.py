"""The arithmetic of fleet.yml itself: propagation and margin have to leave a drain between them."""

from collections.abc import Iterator, Sequence

from fleet.finding import Finding
from gateway.doctor.rule import Place, Rule
from gateway.doctor.times import Times, Told


def chosen(told: Sequence[Told]) -> Times:
    """The times to compare with: of the longest window there is, or the defaults."""
    return max((each.times for each in told), key=lambda times: times.window, default=Times())


def findings(told: Sequence[Told]) -> Iterator[Finding]:
    """What is wrong with the times of each fleet.yml."""
    times = chosen(told)
    for each in told:
        yield from _of_one(each)
        if each.times != times:
            why = (
                f"window {each.times.window:g} s: another fleet.yml has window {times.window:g} s, "
                "and that is what all other files are compared with"
            )
            place = Place(each.file, each.lines.get("window", each.line))
            yield place.finding(Rule.FLEET_SEVERAL, why)


def _of_one(told: Told) -> Iterator[Finding]:
    for name, placed in told.wrong.items():
        why = f"gateway.{name} is no duration; {getattr(Times(), name):g} s is taken in its place"
        yield Place(told.file, placed.line).finding(Rule.FLEET_VALUE, why)
    times = told.times
    if times.drain <= 0:
        least = times.propagation + times.margin
        why = (
            f"window is {times.window:g} s, has to be more than {least:g} s: propagation "
            f"{times.propagation:g} s + margin {times.margin:g} s leave streams no time to finish"
        )
        line = next(
            (told.lines[key] for key in ("window", "margin", "propagation") if key in told.lines),
            told.line,
        )
        yield Place(told.file, line).finding(
            Rule.FLEET_WINDOW,
            why,
            have=f"{times.window:g} s",
            need=f"more than {least:g} s",
            fix=f"window: {least + 45:g}s",
        )
