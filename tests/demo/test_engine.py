"""The engine under a virtual clock; a test named after a fact shows that line of real behaviour."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.vllm.engine import Engine, EngineState
from demo.vllm.limits import Limits
from demo.vllm.request import FinishReason, Output, Request
from demo.vllm.tally import Published

LIMITS = Limits(steps_per_second=50, prefill_tokens_per_second=800)
LONG = 24000


def prompt(tokens: int, seed: int = 0) -> tuple[int, ...]:
    return tuple((seed * 7 + index * (seed + 1)) % 256 for index in range(tokens))


def request(name: str, tokens: int = 2, max_tokens: int = 1000, seed: int = 0) -> Request:
    return Request(name, prompt(tokens, seed), max_tokens)


def busy(requests: int = 3, limits: Limits = LIMITS, seconds: float = 10.0) -> Engine:
    """An engine that has been decoding for some seconds."""
    engine = Engine(limits)
    for number in range(requests):
        engine.submit(request(f"r{number}", seed=number), 0.0)
    engine.advance(seconds)
    return engine


def pages(engine: Engine, times: Iterable[float]) -> list[Published]:
    published = []
    for now in times:
        engine.advance(now)
        published.append(engine.published())
    return published


class TestProgress:
    def test_fact_1_a_long_prefill_moves_no_counter(self) -> None:
        engine = Engine(LIMITS)
        engine.submit(request("long", LONG), 0.0)
        seen = pages(engine, range(1, 30))
        assert {page.histograms["iteration_tokens_total"].count for page in seen} == {0}
        assert {page.generation_tokens for page in seen} == {0}
        assert {page.prompt_tokens for page in seen} == {0}
        assert {page.num_requests_running for page in seen[2:]} == {1}
        assert engine.occupancy().steps > 20

    def test_prompt_tokens_rise_when_the_first_token_comes_out(self) -> None:
        engine = Engine(LIMITS)
        engine.submit(request("long", LONG), 0.0)
        outputs: list[Output] = []
        while not outputs:
            assert engine.published().prompt_tokens == 0
            outputs = engine.advance(engine.due() or 0.0)
        page = engine.published()
        assert page.prompt_tokens == LONG
        assert page.generation_tokens == 1
        assert page.histograms["iteration_tokens_total"].sum == LONG + 1
        assert page.histograms["time_to_first_token_seconds"].count == 1

    def test_fact_2_kv_usage_moves_in_every_step_of_a_long_prefill(self) -> None:
        engine = Engine(LIMITS)
        engine.submit(request("long", LONG), 0.0)
        usages = [0.0]
        while (due := engine.due()) is not None and engine.published().prompt_tokens == 0:
            steps = engine.occupancy().steps
            engine.advance(due)
            if engine.occupancy().steps > steps:
                usages.append(engine.published().kv_cache_usage_perc)
        assert len(usages) > 20
        assert all(before < after for before, after in pairwise(usages))

    def test_fact_7_kv_usage_moves_once_per_block(self) -> None:
        engine = Engine(Limits(max_num_batched_tokens=32, block_size=128))
        engine.submit(request("long", 1024), 0.0)
        usages = []
        while engine.published().prompt_tokens == 0:
            engine.advance(engine.due() or 0.0)
            usages.append(round(engine.published().kv_cache_usage_perc * 1023))
        assert usages.count(3) == 4
        assert sorted(set(usages)) == [0, 1, 2, 3, 4, 5, 6, 7, 8]

    def test_fact_6_a_single_long_step_writes_nothing_until_it_ends(self) -> None:
        engine = Engine(Limits(max_num_batched_tokens=32768, steps_per_second=50))
        engine.submit(request("long", LONG), 0.0)
        fresh = engine.published()
        ends = LONG / 800 + 1 / 50
        assert pages(engine, [1.0, 15.0, ends - 0.01]) == [fresh] * 3
        engine.advance(ends)
        assert engine.published().generation_tokens == 1

    def test_decoding_counts_one_step_for_all_streams_of_it(self) -> None:
        page = busy(requests=3, seconds=10.0).published()
        steps = page.histograms["iteration_tokens_total"]
        assert page.generation_tokens == 3 * steps.count
        assert steps.sum == page.generation_tokens + page.prompt_tokens
        assert page.kv_cache_usage_perc == pytest.approx(3 * 4 / 1023)
        assert 490 <= steps.count <= 500

    def test_an_idle_engine_has_nothing_due(self) -> None:
        engine = Engine(LIMITS)
        assert engine.due() is None
        assert engine.advance(1e9) == []
        assert not engine.published().stepped


class TestFrozen:
    def test_fact_3_nothing_moves_when_requests_arrive_and_clients_hang_up(self) -> None:
        engine = busy()
        before = engine.published()
        engine.freeze(10.0)
        engine.submit(request("new"), 11.0)
        engine.abort("r0", 12.0)
        engine.abort("new", 12.0)
        assert pages(engine, [11.0, 20.0, 3600.0]) == [before] * 3
        assert engine.due() is None
        assert engine.occupancy().unseen == 3

    def test_fact_4_running_stays_as_it_was(self) -> None:
        engine = busy(requests=3)
        engine.freeze(10.0)
        assert engine.advance(100.0) == []
        assert engine.published().num_requests_running == 3

    def test_fact_5_frozen_while_idle_then_a_request(self) -> None:
        engine = Engine(LIMITS)
        engine.freeze(1.0)
        engine.submit(request("new"), 2.0)
        assert engine.advance(100.0) == []
        page = engine.published()
        assert (page.num_requests_running, page.num_requests_waiting) == (0, 0)

    def test_thawed_it_goes_on_where_it_stood(self) -> None:
        frozen, other = busy(), busy()
        frozen.freeze(10.0)
        frozen.advance(70.0)
        frozen.thaw(70.0)
        later = frozen.advance(75.0)
        assert [each.token for each in later] == [each.token for each in other.advance(15.0)]
        assert frozen.published().generation_tokens == other.published().generation_tokens

    def test_thawed_it_takes_in_what_arrived_meanwhile(self) -> None:
        engine = Engine(LIMITS)
        engine.freeze(0.0)
        engine.submit(request("kept", max_tokens=1), 1.0)
        engine.submit(request("gone", max_tokens=1), 1.0)
        engine.abort("gone", 2.0)
        engine.thaw(60.0)
        assert [(each.request_id, each.at > 60.0) for each in engine.advance(61.0)] == [
            ("kept", True)
        ]

    def test_killed_it_never_writes_again(self) -> None:
        engine = busy()
        before = engine.published()
        engine.kill()
        engine.thaw(11.0)
        assert engine.advance(100.0) == []
        assert engine.published() == before
        assert engine.state is EngineState.DEAD


class TestQueue:
    def test_slots_are_taken_first_come_first_served(self) -> None:
        engine = busy(requests=10, seconds=1.0)
        page = engine.published()
        assert (page.num_requests_running, page.num_requests_waiting) == (4, 6)
        first = {output.request_id for output in engine.advance(1.1)}
        assert first == {"r0", "r1", "r2", "r3"}

    def test_a_freed_slot_goes_to_the_next_in_line(self) -> None:
        engine = Engine(Limits(max_num_seqs=1))
        for number in range(3):
            engine.submit(request(f"r{number}", max_tokens=2), 0.0)
        order = [output.request_id for output in engine.advance(10.0)]
        assert order == ["r0", "r0", "r1", "r1", "r2", "r2"]
        page = engine.published()
        assert page.request_success == {FinishReason.LENGTH: 3}
        assert page.kv_cache_usage_perc == 0
        assert page.num_requests_running == 0

    def test_fact_24_a_hang_up_frees_the_slot_within_a_second(self) -> None:
        engine = busy(requests=1)
        engine.abort("r0", 10.0)
        engine.advance(11.0)
        page = engine.published()
        assert (page.num_requests_running, page.kv_cache_usage_perc) == (0, 0.0)

    def test_fact_14_an_abort_is_no_success_of_any_kind(self) -> None:
        engine = busy(requests=1)
        engine.abort("r0", 10.0)
        engine.advance(11.0)
        assert engine.published().request_success == {}

    def test_a_waiting_request_that_is_given_up_is_never_run(self) -> None:
        engine = busy(requests=5, seconds=1.0)
        engine.abort("r4", 1.0)
        engine.advance(2.0)
        assert engine.published().num_requests_waiting == 0
        engine.abort("r0", 2.0)
        assert "r4" not in {output.request_id for output in engine.advance(3.0)}

    def test_a_request_longer_than_the_model_is_refused(self) -> None:
        engine = Engine(LIMITS)
        with pytest.raises(ValueError, match="max_model_len 32768"):
            engine.submit(request("long", 32768, max_tokens=1), 0.0)

    def test_decoding_goes_on_beside_a_long_prefill(self) -> None:
        engine = busy(requests=1, seconds=1.0)
        engine.submit(request("long", LONG, seed=9), 1.0)
        during = engine.advance(20.0)
        assert {output.request_id for output in during} == {"r0"}
        assert len(during) > 10


class TestPace:
    def test_slow_applies_to_the_step_under_way(self) -> None:
        engine = busy(requests=1)
        engine.pace(0.01, 10.0)
        assert engine.advance(50.0) == []
        engine.pace(50.0, 50.0)
        assert len(engine.advance(51.0)) > 40

    def test_prompt_tokens_make_a_step_longer(self) -> None:
        engine = Engine(LIMITS)
        engine.submit(request("r", 400), 0.0)
        engine.advance(0.0)
        assert engine.due() == pytest.approx(400 / 800 + 1 / 50)


class TestCache:
    def test_a_prompt_seen_before_is_not_computed_again(self) -> None:
        engine = Engine(LIMITS)
        engine.submit(request("first", 1000, max_tokens=1), 0.0)
        engine.advance(10.0)
        engine.submit(request("again", 1000, max_tokens=1), 10.0)
        engine.advance(20.0)
        page = engine.published()
        assert page.prefix_cache_queries == 2000
        assert page.prefix_cache_hits == page.prompt_tokens_cached == 7 * 128
        assert page.prompt_tokens == 2000
        computed = page.histograms["request_prefill_kv_computed_tokens"]
        assert computed.sum == 1000 + 1000 - 7 * 128

    def test_the_last_token_is_always_computed(self) -> None:
        engine = Engine(LIMITS)
        for number, now in enumerate((0.0, 10.0)):
            engine.submit(request(f"r{number}", 256, max_tokens=1), now)
            engine.advance(now + 10)
        assert engine.published().prefix_cache_hits == 128

    def test_queries_count_once_also_for_a_preempted_request(self) -> None:
        engine = tight()
        engine.advance(100.0)
        page = engine.published()
        assert page.num_preemptions > 0
        assert page.prefix_cache_queries == page.prompt_tokens == 2 * 64

    def test_preempted_requests_finish_all_the_same(self) -> None:
        outputs = tight().advance(1000.0)
        alone = Engine(Limits(block_size=16, num_gpu_blocks=13, max_model_len=192))
        alone.submit(Request("b", prompt(64, 2), 100), 0.0)
        tokens = [output.token for output in outputs if output.request_id == "b"]
        assert tokens == [output.token for output in alone.advance(1000.0)]
        assert [output.finish for output in outputs if output.finish] == [FinishReason.LENGTH] * 2


def tight() -> Engine:
    """Two requests that do not fit side by side to their ends."""
    engine = Engine(Limits(block_size=16, num_gpu_blocks=13, max_model_len=192))
    engine.submit(Request("a", prompt(64, 1), 100), 0.0)
    engine.submit(Request("b", prompt(64, 2), 100), 0.0)
    return engine


class TestOutput:
    def test_the_same_ids_go_on_with_the_same_ids_cut_anywhere(self) -> None:
        def generate(ids: tuple[int, ...], tokens: int) -> tuple[int, ...]:
            engine = Engine(LIMITS)
            engine.submit(Request("r", ids, tokens), 0.0)
            return tuple(each.token for each in engine.advance(1e6) if each.token is not None)

        whole = generate(prompt(5), 120)
        assert len(whole) == 120
        for cut in range(1, 120):
            assert generate(prompt(5) + whole[:cut], 120 - cut) == whole[cut:]

    def test_a_stop_token_ends_it(self) -> None:
        engine = Engine(LIMITS)
        engine.submit(request("free", max_tokens=10), 0.0)
        tokens = [output.token for output in engine.advance(10.0)]
        assert tokens[4] is not None
        stops = frozenset({tokens[4]})
        engine.submit(Request("stopped", prompt(2), 10, stop_token_ids=stops), 10.0)
        outputs = engine.advance(20.0)
        assert [output.token for output in outputs] == tokens[: tokens.index(tokens[4]) + 1]
        assert outputs[-1].finish is FinishReason.STOP

    def test_pooling_ends_with_its_prefill_and_without_a_token(self) -> None:
        engine = Engine(LIMITS)
        engine.submit(Request("e", prompt(10), 0, pooling=True), 0.0)
        outputs = engine.advance(10.0)
        assert [(each.token, each.finish) for each in outputs] == [(None, FinishReason.STOP)]
        page = engine.published()
        assert (page.prompt_tokens, page.generation_tokens) == (10, 0)


@given(
    arrivals=st.lists(
        st.tuples(st.integers(0, 2000), st.integers(1, 300), st.integers(1, 40)), max_size=12
    ),
    looks=st.lists(st.floats(0, 40), max_size=12),
)
def test_when_somebody_looks_changes_nothing(
    arrivals: list[tuple[int, int, int]], looks: list[float]
) -> None:
    """Outputs depend on what arrived when, not on how often the clock is moved.

    Steps take whole multiples of 1/800 s here. The odd part of an arrival keeps it off the moment a
    step ends: there, what comes first is anybody's guess.
    """
    limits = Limits(block_size=16, num_gpu_blocks=40, max_model_len=400, max_num_batched_tokens=64)
    quiet, watched = Engine(limits), Engine(limits)
    seen: list[Output] = []
    events: list[tuple[float, Request | None]] = [
        (at / 100 + number / 100_000, request(f"r{number}", tokens, max_tokens, seed=number))
        for number, (at, tokens, max_tokens) in enumerate(arrivals)
    ]
    events += [(at, None) for at in looks]
    for at, each in sorted(events, key=lambda event: event[0]):
        seen += watched.advance(at)
        if each:
            watched.submit(each, at)
            quiet.submit(each, at)
        occupancy = watched.occupancy()
        assert occupancy.running <= limits.max_num_seqs
        assert 0 <= occupancy.kv_usage <= 1
    seen += watched.advance(1e6)
    assert seen == quiet.advance(1e6)
    assert sum(1 for output in seen if output.finish) == len(arrivals)
    assert watched.occupancy().kv_usage == 0
