"""KV blocks: what is held, shared and forgotten."""

from hypothesis import given
from hypothesis import strategies as st

from demo.vllm.blocks import BlockPool, chain


def test_a_key_stands_for_its_block_and_all_before_it() -> None:
    keys = chain(range(10), 4)
    assert len(keys) == 2
    assert chain([9, *range(1, 10)], 4)[1] != keys[1]
    assert chain(range(12), 4, keys)[:2] == keys


def test_all_blocks_asked_for_or_none() -> None:
    pool = BlockPool(4)
    assert pool.take((), 3)
    assert not pool.take((), 2)
    assert pool.held == 3


def test_a_released_prefix_stays_until_the_space_is_needed() -> None:
    pool = BlockPool(4)
    pool.take((), 2)
    assert [pool.name(1), pool.name(2)] == [True, True]
    pool.release([1, 2], 0)
    assert pool.held == 0
    assert pool.cached([1, 2, 3]) == [1, 2]
    assert pool.take((), 3)
    assert pool.cached([1, 2]) == [1]


def test_a_shared_block_is_held_once() -> None:
    pool = BlockPool(4)
    pool.take((), 1)
    pool.name(1)
    pool.take([1], 1)
    assert pool.held == 2
    pool.release([1], 0)
    assert pool.held == 2
    pool.release([1], 1)
    assert pool.held == 0


def test_content_that_another_has_named_stays_nameless() -> None:
    pool = BlockPool(4)
    pool.take((), 2)
    assert pool.name(1)
    assert not pool.name(1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=40))
def test_never_more_than_there_are(moves: list[tuple[int, int]]) -> None:
    pool = BlockPool(6)
    holding: list[tuple[list[int], int]] = []
    for shared, fresh in moves:
        keys = list(pool.cached(list(range(shared))))
        if pool.take(keys, fresh):
            named = [key for key in range(len(keys), len(keys) + fresh) if pool.name(key)]
            # Names have to follow each other from the first on, as a scheduler gives them.
            if named != list(range(len(keys), len(keys) + len(named))):
                named = named[:0]
            holding.append((keys + named, fresh - len(named)))
        elif holding:
            pool.release(*holding.pop(0))
        assert pool.held >= 0
        assert pool.held + pool.idle <= pool.usable
    for each in holding:
        pool.release(*each)
