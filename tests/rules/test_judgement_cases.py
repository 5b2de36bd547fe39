"""Every judgement case and every recording through the real rules, in two runs of promtool.

What the exporter shows of them goes through recording.yml and alerts.yml; what vLLM itself shows
goes through direct.yml. There a poll is 22.5 s: the cases have a wait of 60 s, it has one of 90.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fleet.watching import INTERVAL
from tests.rules import exposed, scraped
from tests.rules.scenarios import GOES_ON, SCENARIOS, STUCK, Scenario
from tests.rules.shipped import DIRECT, RULE_FILES
from tests.rules.timeline import Key, Question, Timeline, wrong_answers

DIRECT_INTERVAL = 22.5
END = 1200.0

# What raw metrics cannot tell, or no rule on them does: no alert at all, at any moment.
CANNOT_SEE = {
    "restarted-between-two-reads": "no alert on raw metrics is about restarts",
    "restarted-without-a-start-time": "no alert on raw metrics is about restarts",
    "carried-over-page": "it may be a hang; said to be unjudged only after a quarter of an hour",
    "behind-a-proxy": "said to be unjudged only after a quarter of an hour",
    "sleeping": "asleep is no alert, nor is a hang behind it seen",
    "empty-200": "a page without vLLM's metrics gives no series to fire on",
    "saturated-api-loop": "failed scrapes are `up == 0`, an alert that everybody has already",
    "blind-for-long": "failed scrapes are `up == 0`, an alert that everybody has already",
    "recording-frozen-while-idle": "nothing shows work pending; only a short request can tell",
    "recording-behind-least-conn-proxy": "said to be unjudged only after a quarter of an hour",
}

NAMES = [scenario.name for scenario in SCENARIOS]
each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=NAMES)


@dataclass(frozen=True)
class Told:
    """The questions of each scenario, and promtool's words on those that were answered wrongly."""

    questions: Mapping[str, list[Question]]
    wrong: Mapping[str, str]

    def wrong_of(self, name: str) -> list[str]:
        return [self.wrong[q.expr] for q in self.questions[name] if q.expr in self.wrong]


def timeline(scrapes: Iterator[dict[Key, float]]) -> Timeline:
    made = Timeline()
    for samples in scrapes:
        made.add(samples)
    made.add({})
    return made


@dataclass(frozen=True)
class Watch:
    """Who scrapes what, every ``tick`` seconds, and which rules look at it."""

    scrapes: Callable[[Scenario], Iterator[dict[Key, float]]]
    rules: tuple[Path, ...]
    tick: float

    def ask(
        self,
        scenarios: Iterable[Scenario],
        questions: Callable[[Scenario], Iterator[Question]],
        folder: Path,
    ) -> Told:
        """All questions on all scenarios at once."""
        asked, timelines = {}, []
        for scenario in scenarios:
            assert (len(scenario.met) + 1) * self.tick < END
            asked[scenario.name] = list(questions(scenario))
            timelines.append(timeline(self.scrapes(scenario)))
        every = [question for some in asked.values() for question in some]
        wrong = wrong_answers(timelines, every, rules=self.rules, tick=self.tick, folder=folder)
        return Told(asked, wrong)


def firing(alert: str, where: str, engines: frozenset[str], at: float) -> Question:
    """The engines of a scenario for which an alert fires at a moment."""
    expr = f'group by (engine) (ALERTS{{alertname="{alert}", alertstate="firing", {where}}})'
    return Question(expr, at, tuple((f'{{engine="{engine}"}}', 1.0) for engine in sorted(engines)))


def never(alerts: str, where: str, engines: frozenset[str] = frozenset()) -> Question:
    """Alerts (a pattern) fired at no moment at all, but for some engines."""
    besides = f', engine!~"{"|".join(sorted(engines))}"' if engines else ""
    selector = f'ALERTS{{alertname=~"{alerts}", alertstate="firing", {where}{besides}}}'
    return Question(f"count_over_time({selector}[{END:.0f}s])", END)


def of_exporter(scenario: Scenario) -> Iterator[Question]:
    where = f'backend="{scenario.name}"'
    last = (len(scenario.met) - 1) * INTERVAL
    for alert in sorted({alert for alert, _ in scenario.fires}):
        engines = frozenset(engine for name, engine in scenario.fires if name == alert)
        yield firing(alert, where, engines, last)
        yield never(alert, where, engines)
    for alert in sorted(scenario.never):
        yield never(alert, where)
    if scenario.state is not None:
        series = "backend_state:vllm_backend_state:min"
        expected = f'{series}{{backend="{scenario.name}", state="{scenario.state}"}}'
        yield Question(f"{series}{{{where}}} == 1", last, ((expected, 1.0),))


def of_raw(scenario: Scenario) -> Iterator[Question]:
    where = f'instance="{scenario.name}"'
    if scenario.name in CANNOT_SEE:
        yield never("VLLMDirect.+", where)
        return
    last = len(scenario.met) * DIRECT_INTERVAL - 1
    for alert in sorted({alert for alert, _ in scenario.fires}):
        engines = frozenset(engine for name, engine in scenario.fires if name == alert)
        direct = alert.replace("VLLM", "VLLMDirect")
        yield firing(direct, where, engines, last)
        yield never(direct, where, engines)
    for alert in sorted(scenario.never):
        if alert.startswith("VLLMEngine"):
            yield never(alert.replace("VLLM", "VLLMDirect"), where)


def as_scraped(scenario: Scenario) -> Scenario:
    """The raw rules need pages of more than two waits: a hang goes on until they have them."""
    is_stuck = any(alert == STUCK for alert, _ in scenario.fires)
    return scenario.going_on(GOES_ON) if is_stuck else scenario


EXPORTER = Watch(exposed.scrapes, RULE_FILES, INTERVAL)
RAW = Watch(scraped.scrapes, (DIRECT,), DIRECT_INTERVAL)


@pytest.fixture(scope="module")
def told_by_the_exporter(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return EXPORTER.ask(SCENARIOS, of_exporter, tmp_path_factory.mktemp("exporter"))


@pytest.fixture(scope="module")
def told_by_raw_metrics(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return RAW.ask(map(as_scraped, SCENARIOS), of_raw, tmp_path_factory.mktemp("direct"))


@each_scenario
def test_the_rules_tell_what_the_exporter_judged(
    told_by_the_exporter: Told, scenario: Scenario
) -> None:
    assert told_by_the_exporter.questions[scenario.name]
    assert told_by_the_exporter.wrong_of(scenario.name) == []


@each_scenario
def test_the_rules_on_raw_metrics_tell_the_same_where_these_can_tell(
    told_by_raw_metrics: Told, scenario: Scenario
) -> None:
    assert told_by_raw_metrics.questions[scenario.name]
    assert told_by_raw_metrics.wrong_of(scenario.name) == []


def test_every_exception_is_a_scenario() -> None:
    assert set(CANNOT_SEE) < set(NAMES)


def test_no_exception_hides_a_case_that_is_called_stuck() -> None:
    stuck = {s.name for s in SCENARIOS if any(alert == STUCK for alert, _ in s.fires)}
    assert stuck.isdisjoint(CANNOT_SEE)
