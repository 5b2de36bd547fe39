"""The page beside the recorded ones."""

from typing import NamedTuple

import pytest

from demo.vllm.engine import Engine
from demo.vllm.limits import Limits
from demo.vllm.number import exposed
from demo.vllm.page import Page, only, page
from demo.vllm.process import python_page
from demo.vllm.request import Request
from demo.vllm.series import engine_series
from demo.vllm.settings import Settings
from demo.vllm.template import recorded
from demo.vllm.traffic import Exchange, Traffic
from tests.demo.recorded import engine_value, families, outline, recorded_page, series

CREATED = 1796008668.5
SINGLE = Settings()
MULTIPROCESS = Settings(multiprocess=True)
TWO_ENGINES = Settings(data_parallel_size=2)


def fitted(settings: Settings) -> Page:
    return page(recorded(settings.shape), settings, CREATED)


def text(settings: Settings, *engines: Engine, completions: int = 0) -> str:
    traffic = Traffic()
    for _ in range(completions):
        traffic.add(Exchange("/v1/completions", "POST", 200, 90, 0, 1.25), CREATED)
    published = [engine.published() for engine in engines]
    return fitted(settings).text(published, traffic.tallied(), python_page()())


def busy(settings: Settings = SINGLE, requests: int = 3) -> Engine:
    engine = Engine(settings.limits)
    for number in range(requests):
        engine.submit(Request(f"r{number}", (number, 7), 5000), 0.0)
    engine.advance(5.0)
    return engine


def fresh() -> Engine:
    return Engine(Limits())


class Case(NamedTuple):
    """A recorded page, and a simulated server that should write the same lines."""

    scenario: str
    number: int
    settings: Settings
    engines: list[Engine]
    completions: int = 0
    # The order of a multiprocess page changes with every start: one of them is enough for it.
    ordered: bool = True


CASES = [
    Case("idle", 0, SINGLE, [fresh()]),
    Case("busy-decode", 3, SINGLE, [busy()]),
    Case("queue-full", 3, SINGLE, [busy(requests=10)], completions=3),
    Case("frozen-while-running", 6, SINGLE, [busy()], completions=3),
    Case("engine-killed", 3, SINGLE, [busy()], completions=3),
    Case("after-restart", 0, SINGLE, [fresh()]),
    Case("multiprocess-idle", 0, MULTIPROCESS, [fresh()], ordered=False),
    Case("multiprocess-busy", 2, MULTIPROCESS, [busy()], ordered=False),
    Case("multiprocess-after-restart", 1, MULTIPROCESS, [busy()], completions=1),
    Case("dp2-one-engine-frozen", 3, TWO_ENGINES, [busy(), busy()], ordered=False),
]


def simulated(case: Case) -> str:
    return text(case.settings, *case.engines, completions=case.completions)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.scenario)
def test_same_names_labels_types_and_help_as_a_real_page(case: Case) -> None:
    real = recorded_page(case.scenario, case.number)
    assert series(simulated(case)).keys() == series(real).keys()
    assert families(simulated(case)) == families(real)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.ordered], ids=lambda case: case.scenario
)
def test_same_lines_in_the_same_order_as_a_real_page(case: Case) -> None:
    assert outline(simulated(case)) == outline(recorded_page(case.scenario, case.number))


@pytest.mark.parametrize("settings", [SINGLE, MULTIPROCESS], ids=["single", "multiprocess"])
def test_fact_12_gauges_are_absent_until_the_first_step_in_multiprocess_mode_only(
    settings: Settings,
) -> None:
    before = text(settings, fresh())
    assert (engine_value(before, "num_requests_running") is None) == settings.multiprocess
    assert (engine_value(before, "kv_cache_usage_perc") is None) == settings.multiprocess
    assert engine_value(before, "generation_tokens_total") == 0
    assert engine_value(text(settings, busy()), "num_requests_running") == 3


def test_fact_15_no_start_time_and_no_created_in_multiprocess_mode() -> None:
    names = {name for name, _ in series(text(MULTIPROCESS, busy(), completions=1))}
    assert not [name for name in names if name.startswith(("process_", "python_"))]
    assert not [name for name in names if name.endswith("_created")]


def test_fact_17_each_engine_has_its_own_series() -> None:
    frozen, going_on = busy(), busy(requests=2)
    frozen.freeze(5.0)
    before = text(TWO_ENGINES, frozen, going_on)
    for engine in (frozen, going_on):
        engine.advance(9.0)
    after = text(TWO_ENGINES, frozen, going_on)
    name = "generation_tokens_total"
    assert engine_value(after, name, "0") == engine_value(before, name, "0")
    assert (engine_value(after, name, "1") or 0) > (engine_value(before, name, "1") or 0)


def test_fact_3_of_a_frozen_engine_only_the_lines_about_python_move() -> None:
    engine = busy()
    engine.freeze(5.0)
    before = series(text(SINGLE, engine))
    engine.submit(Request("new", (1,), 1), 6.0)
    engine.advance(60.0)
    after = series(text(SINGLE, engine))
    moved = {name for (name, labels), value in after.items() if before[name, labels] != value}
    assert not [name for name in moved if not name.startswith(("process_", "python_"))]


def test_values_stand_where_they_belong() -> None:
    engine = busy(requests=10)
    shown = text(SINGLE, engine)
    published = engine.published()
    steps = published.histograms["iteration_tokens_total"]
    assert engine_value(shown, "num_requests_running") == 4
    assert engine_value(shown, "num_requests_waiting") == 6
    assert engine_value(shown, "num_requests_waiting_by_reason", reason="capacity") == 6
    assert engine_value(shown, "num_requests_waiting_by_reason", reason="deferred") == 0
    assert engine_value(shown, "kv_cache_usage_perc") == published.kv_cache_usage_perc
    assert engine_value(shown, "generation_tokens_total") == published.generation_tokens
    assert engine_value(shown, "prompt_tokens_total") == 8
    assert engine_value(shown, "iteration_tokens_total_count") == steps.count
    assert engine_value(shown, "engine_sleep_state", sleep_state="awake") == 1


def test_every_value_has_its_line() -> None:
    engine = fresh()
    engine.submit(Request("r", (1, 2), 5), 0.0)
    engine.advance(10.0)
    lines = {row.key for block in fitted(SINGLE).blocks for row in block.rows}
    assert engine_series(engine.published()).keys() <= lines


def test_every_histogram_is_filled_and_adds_up() -> None:
    engine = fresh()
    engine.submit(Request("r", tuple(range(200)), 20), 0.0)
    engine.advance(10.0)
    shown = text(SINGLE, engine, completions=2)
    histograms = [name for name, (kind, _) in families(shown).items() if kind == "histogram"]
    assert len(histograms) == 18
    values = series(shown)
    for name in histograms:
        counts = [value for (sample, _), value in values.items() if sample == f"{name}_count"]
        endless = [
            value
            for (sample, labels), value in values.items()
            if sample == f"{name}_bucket" and ("le", "+Inf") in labels
        ]
        assert counts == endless
        assert counts[0] > 0, name


def test_created_series_say_since_when() -> None:
    assert engine_value(text(SINGLE, fresh()), "generation_tokens_created") == CREATED


def test_model_and_cache_are_those_of_the_server() -> None:
    settings = Settings(model="big", limits=Limits(block_size=16, num_gpu_blocks=4096))
    shown = text(settings, Engine(settings.limits))
    assert 'model_name="tiny"' not in shown
    (labels,) = [dict(labels) for name, labels in series(shown) if name == "vllm:cache_config_info"]
    assert (labels["block_size"], labels["num_gpu_blocks"]) == ("16", "4096")
    assert labels["kv_cache_size_tokens"] == "65536"


class TestOnly:
    def test_samples_of_exactly_these_names_under_their_headers(self) -> None:
        kept = only(
            text(SINGLE, busy()),
            {"vllm:num_requests_running", "vllm:iteration_tokens_total_count", "nothing"},
        )
        assert outline(kept) == [
            "# HELP vllm:num_requests_running Number of requests in model execution batches.",
            "# TYPE vllm:num_requests_running gauge",
            'vllm:num_requests_running{engine="0",model_name="tiny"}',
            "# HELP vllm:iteration_tokens_total Histogram of number of tokens per engine_step.",
            "# TYPE vllm:iteration_tokens_total histogram",
            'vllm:iteration_tokens_total_count{engine="0",model_name="tiny"}',
        ]

    def test_nothing_wanted_nothing_left(self) -> None:
        assert only(text(SINGLE, fresh()), {"vllm:iteration_tokens_total"}) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0.0"),
        (24032.0, "24032.0"),
        (1000000, "1e+06"),
        (1796008595.55, "1.79600859555e+09"),
        (0.0029325513196480912, "0.0029325513196480912"),
        (float("inf"), "+Inf"),
    ],
)
def test_numbers_as_go_writes_them(value: float, shown: str) -> None:
    assert exposed(value) == shown
