"""Pages of all releases and re-exporters, and pages that are none."""

import dataclasses
import math
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fleet.reading import COUNTED, MEASURED, NAMES, EngineReading, Reading
from tests.fleet.pages import BUSY, page
from tests.fleet.watching import RECORDINGS

RECORDED = sorted(RECORDINGS.glob("*/*.prom"))
# Two data-parallel engines have two API servers.
MULTIPROCESS = ("multiprocess", "dp2")


def only_engine(text: str) -> EngineReading:
    (engine,) = Reading.from_page(text).engines.values()
    return engine


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_every_recorded_page_is_read_in_full(file: Path) -> None:
    reading = Reading.from_page(file.read_text())
    assert (reading.start_time is None) is file.parent.name.startswith(MULTIPROCESS)
    assert tuple(reading.engines) == (("0", "1") if "dp2" in str(file) else ("0",))
    for engine in reading.engines.values():
        assert engine.unreadable == frozenset()
        missing = {name for name in MEASURED if getattr(engine, name) is None}
        fresh = {"running", "waiting", "waiting_capacity", "waiting_deferred", "kv_usage"}
        assert missing == (fresh if "multiprocess-idle" in str(file) else set())
        assert engine.awake is True


def test_a_recorded_page_has_these_values() -> None:
    assert only_engine((RECORDINGS / "queue-full/00.prom").read_text()) == EngineReading(
        running=4.0,
        waiting=6.0,
        waiting_capacity=6.0,
        waiting_deferred=0.0,
        kv_usage=0.003910068426197455,
        steps=1567.0,
        step_tokens=28760.0,
        generation_tokens=4746.0,
        prompt_tokens=24014.0,
        finished=4.0,
        preemptions=0.0,
        prefix_queries=24014.0,
        prefix_hits=0.0,
        flops=only_engine((RECORDINGS / "queue-full/00.prom").read_text()).flops,
        awake=True,
    )


def test_the_names_of_release_0_8_5_are_known() -> None:
    text = """
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:gpu_prefix_cache_queries_total{engine="0",model_name="m"} 10.0
vllm:gpu_prefix_cache_hits_total{engine="0",model_name="m"} 4.0
vllm:num_preemptions_total{engine="0",model_name="m"} 0.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 9.0
vllm:generation_tokens_total{engine="0",model_name="m"} 8.0
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 17.0
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 6.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 2.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 3.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 100.0
"""
    assert only_engine(text) == EngineReading(
        running=3.0,
        waiting=1.0,
        kv_usage=0.5,
        steps=6.0,
        step_tokens=17.0,
        generation_tokens=8.0,
        prompt_tokens=9.0,
        finished=5.0,
        preemptions=0.0,
        prefix_queries=10.0,
        prefix_hits=4.0,
    )


def test_kv_usage_under_both_names_counts_once() -> None:
    text = 'vllm:gpu_cache_usage_perc{engine="0"} 0.5\nvllm:kv_cache_usage_perc{engine="0"} 0.5\n'
    assert only_engine(text).kv_usage == 0.5


def test_a_page_without_engine_labels_is_of_engine_0() -> None:
    reading = Reading.from_page('vllm:num_requests_running{model_name="m"} 2\n')
    assert reading.engines == {"0": EngineReading(running=2.0)}


@pytest.mark.parametrize("prefix", ["ray_vllm_", "ray_vllm:", "vllm_", "a_b_vllm_"])
def test_every_name_is_known_as_ray_spells_it(prefix: str) -> None:
    text = page({"1": BUSY}).replace("vllm:", prefix)
    assert Reading.from_page(text) == Reading.from_page(page({"1": BUSY}))


def test_the_start_of_a_sidecar_is_not_the_start_of_the_server() -> None:
    text = "istio_agent_process_start_time_seconds 5\nprocess_start_time_seconds 6\n"
    assert Reading.from_page(text).start_time == 6.0
    assert Reading.from_page("x_process_start_time_seconds 5\n").start_time is None


def test_several_models_of_one_engine_are_its_work_together() -> None:
    text = """
vllm:num_requests_running{engine="0",model_name="base"} 1
vllm:num_requests_running{engine="0",model_name="adapter"} 2
vllm:generation_tokens_total{engine="0",model_name="base"} 10
vllm:generation_tokens_total{engine="0",model_name="adapter"} 20
vllm:kv_cache_usage_perc{engine="0",model_name="base"} 0.25
vllm:kv_cache_usage_perc{engine="0",model_name="adapter"} 0.5
"""
    assert only_engine(text) == EngineReading(running=3.0, generation_tokens=30.0, kv_usage=0.5)


def test_engines_are_never_summed() -> None:
    text = page({"1": {"running": 1}, "0": {"running": 2}, "10": {"running": 4}})
    read = Reading.from_page(text).engines
    assert {name: engine.running for name, engine in read.items()} == {"0": 2, "1": 1, "10": 4}


@pytest.mark.parametrize("value", ["NaN", "nan", "+Inf", "-Inf", "1e999", "x", "", '"5"'])
def test_a_running_that_is_no_number_is_unreadable_and_not_0(value: str) -> None:
    text = f'vllm:num_requests_running{{engine="0"}} {value}\nvllm:num_requests_waiting 5\n'
    engine = only_engine(text)
    assert engine.running is None
    assert "running" in engine.unreadable
    assert engine.waiting == 5.0
    assert not engine.pending_is_readable


def test_one_nan_among_the_models_of_an_engine_makes_the_whole_unreadable() -> None:
    for first, second in (("NaN", "2"), ("2", "NaN")):
        for name, field in (
            ("num_requests_running", "running"),
            ("kv_cache_usage_perc", "kv_usage"),
        ):
            engine = only_engine(f'vllm:{name}{{m="a"}} {first}\nvllm:{name}{{m="b"}} {second}\n')
            assert getattr(engine, field) is None
            assert engine.unreadable == {field}


def test_a_nan_elsewhere_costs_nothing_else() -> None:
    text = page({"0": {**BUSY, "kv": math.nan, "prompt": math.inf}}, 7.0)
    want = dataclasses.replace(
        only_engine(page({"0": BUSY})),
        kv_usage=None,
        prompt_tokens=None,
        unreadable=frozenset({"kv_usage", "prompt_tokens"}),
    )
    assert only_engine(text) == want
    assert want.pending_is_readable
    assert Reading.from_page(text).start_time == 7.0


def test_a_histogram_of_nan_beside_it_costs_nothing() -> None:
    text = page({"0": BUSY}) + 'vllm:request_prompt_tokens_sum{engine="0"} NaN\n'
    assert only_engine(text) == only_engine(page({"0": BUSY}))


@pytest.mark.parametrize("value", ["NaN", "Inf", "x", "{", ""])
def test_a_start_time_that_is_no_number_is_none(value: str) -> None:
    assert Reading.from_page(f"process_start_time_seconds {value}\n").start_time is None


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("vllm:num_requests_running{", {"running"}),
        ("ray_vllm_num_requests_waiting{", {"waiting"}),
        ("vllm:num_requests_waiting_by_reason{", {"waiting_capacity", "waiting_deferred"}),
        ("vllm:engine_sleep_state{", {"awake"}),
        ("vllm:gpu_cache_usage_perc x", {"kv_usage"}),
        ("vllm:generation_tokens_total x", {"generation_tokens"}),
        ("process_start_time_seconds x", set()),
    ],
)
def test_a_malformed_line_makes_its_fields_unreadable(line: str, fields: set[str]) -> None:
    assert only_engine(f"vllm:num_preemptions_total 1\n{line}\n") == EngineReading(
        preemptions=1.0, unreadable=frozenset(fields)
    )


def test_a_page_cut_in_the_middle_of_a_line_loses_that_line_only() -> None:
    text = page({"0": BUSY})
    cut = text[: text.index("vllm:generation_tokens_total") + 40]
    engine = only_engine(cut)
    assert engine.unreadable == {"generation_tokens"}
    assert engine.running == 2.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "<!doctype html><html><body>vllm:num_requests_running 5</body></html>",
        '{"object": "error"}',
        "\x00\x01\x02\ufffd\ufffd",
        "vllm:num_requests_running",
        "# TYPE vllm:num_requests_running gauge\n",
        'vllm:engine_sleep_state{sleep_state="discard_all"} 1\n',
        'vllm:num_requests_waiting_by_reason{reason="another"} 1\n',
        'vllm:request_success_total{finished_reason="abort"} 1\n',
    ],
)
def test_a_page_without_vllm_has_no_engines(text: str) -> None:
    assert Reading.from_page(text) == Reading()


@pytest.mark.parametrize(("value", "awake"), [("1", True), ("0", False), ("1.0", True)])
def test_sleep_shows_in_awake_only(value: str, *, awake: bool) -> None:
    text = f"""
vllm:engine_sleep_state{{engine="0",sleep_state="awake"}} {value}
vllm:engine_sleep_state{{engine="0",sleep_state="weights_offloaded"}} 1
vllm:engine_sleep_state{{engine="0",sleep_state="discard_all"}} 1
"""
    assert only_engine(text).awake is awake


@pytest.mark.parametrize(
    ("reading", "requests", "anything"),
    [
        (EngineReading(), False, False),
        (EngineReading(running=0.0, waiting=0.0), False, False),
        (EngineReading(running=1.0), True, True),
        (EngineReading(waiting=2.0, waiting_capacity=2.0), True, True),
        (EngineReading(waiting=2.0, waiting_capacity=0.0, waiting_deferred=2.0), False, True),
        (EngineReading(waiting=2.0), False, True),
        (EngineReading(waiting_capacity=2.0), False, False),
        (EngineReading(running=1.0, waiting=2.0, waiting_deferred=2.0), True, True),
    ],
)
def test_what_is_pending(reading: EngineReading, *, requests: bool, anything: bool) -> None:
    assert reading.requests_pending is requests
    assert reading.anything_pending is anything


def test_every_counter_is_measured_and_every_name_has_a_field() -> None:
    assert set(COUNTED) < set(MEASURED)
    assert "process_start_time_seconds" in NAMES
    assert len(NAMES) == len(set(NAMES)) == 20


LINES = st.builds(
    "{}{}{}{} {}{}".format,
    st.sampled_from(["", "ray_", "# ", " ", "\ufeff"]),
    st.sampled_from([*NAMES, "vllm_num_requests_running", "vllm:x", "x"]),
    st.sampled_from(["", "_total", "_created"]),
    st.text(
        alphabet=st.sampled_from('{}="\\, \t#engine0reasonsleep_state') | st.characters(),
        max_size=30,
    )
    | st.sampled_from(['{engine="0"}', '{engine="1",reason="capacity"}', '{sleep_state="awake"}']),
    st.floats().map(repr) | st.integers().map(str) | st.text(max_size=6),
    st.sampled_from(["", " 1700000000000", ' # {a="b"} 1', "\r", "\x0b", "\u2028"]),
)


@settings(deadline=None, max_examples=400)
@given(st.lists(LINES, max_size=6).map("\n".join))
@example('vllm:num_requests_running{a="b", ="c"} 1')
@example("vllm:num_requests_running " + "9" * 400)
@example("vllm:num_requests_running 1 " + "9" * 400)
def test_any_page_is_read_without_an_error(text: str) -> None:
    reading = Reading.from_page(text)
    assert reading.start_time is None or math.isfinite(reading.start_time)
    for engine in reading.engines.values():
        for name in MEASURED:
            value = getattr(engine, name)
            assert value is None or math.isfinite(value)
            assert value is None or name not in engine.unreadable or name == "awake"


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200), st.integers(0, 40_000))
def test_a_real_page_with_junk_in_it_is_read_without_an_error(junk: bytes, at: int) -> None:
    raw = (RECORDINGS / "busy-decode/00.prom").read_bytes()
    Reading.from_page((raw[:at] + junk + raw[at:]).decode(errors="replace"))
    Reading.from_page((raw[:at] + junk).decode(errors="replace"))
