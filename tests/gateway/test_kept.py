import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import pytest
from sqlalchemy import Connection, func, select

from gateway.kept import Kept, Left, Taken, resumptions
from gateway.seal import NotGood, Seal, Why
from gateway.shelf import Shelf
from tests.gateway.databases import BrokenDatabase, TestedDatabase

KEY, NEW_KEY = b"k" * 32, b"n" * 32
NOW = 1_700_000_000.0
GOOD_FOR = 600.0
SEAL = Seal((KEY,), GOOD_FOR)
SNAPSHOT = b'{"prompt_ids": [1, 2, 3], "text": "a secret"}'


@pytest.fixture
def kept(shared: TestedDatabase) -> Kept:
    return Kept(shared, SEAL)


@pytest.fixture
def replicas(database_url: str) -> Iterator[list[Kept]]:
    """Gateways with connections of their own to one database."""
    databases = [TestedDatabase(database_url) for _ in range(4)]
    yield [Kept(database, SEAL) for database in databases]
    for database in databases:
        database.close()


def taken(request_id: str, snapshot: bytes) -> Taken:
    return Taken(request_id, snapshot, "any")


def left(
    request_id: str = "req-1", snapshot: bytes = SNAPSHOT, caller: str = "alice", now: float = NOW
) -> Left:
    return Left(SEAL.token(caller, now), caller, request_id, snapshot)


def test_what_is_kept_is_taken_up_once_by_its_token(kept: Kept) -> None:
    one, two = left("req-1", b"one"), left("req-2", b"two")
    kept.keep([one, two], NOW)
    assert kept.take(two.token.text, "alice", NOW) == taken("req-2", b"two")
    assert kept.take(two.token.text, "alice", NOW) == NotGood(Why.SPENT)
    assert kept.take(one.token.text, "alice", NOW) == taken("req-1", b"one")


def test_what_is_kept_is_taken_up_by_its_request_too_and_still_once(kept: Kept) -> None:
    one = left()
    kept.keep([one], NOW)
    assert kept.take_request("req-1", "alice", NOW) == taken("req-1", SNAPSHOT)
    assert kept.take_request("req-1", "alice", NOW) == NotGood(Why.SPENT)
    assert kept.take(one.token.text, "alice", NOW) == NotGood(Why.SPENT)


def test_what_is_given_back_may_be_taken_up_again(kept: Kept) -> None:
    one = left()
    kept.keep([one], NOW)
    for _ in range(2):
        came = kept.take(one.token.text, "alice", NOW)
        assert came == taken("req-1", SNAPSHOT)
        assert isinstance(came, Taken)
        kept.give_back(came, "alice")
    assert kept.take_request("req-1", "alice", NOW) == taken("req-1", SNAPSHOT)
    assert kept.take(one.token.text, "alice", NOW) == NotGood(Why.SPENT)


def test_another_caller_takes_nothing_and_spends_nothing(kept: Kept) -> None:
    one = left()
    kept.keep([one], NOW)
    assert kept.take(one.token.text, "bob", NOW) == NotGood(Why.ANOTHER_CALLER)
    assert kept.take_request("req-1", "bob", NOW) == NotGood(Why.NOT_KEPT)
    assert kept.take(one.token.text, "alice", NOW) == taken("req-1", SNAPSHOT)


def test_two_callers_may_have_requests_of_the_same_name(kept: Kept) -> None:
    kept.keep([left(snapshot=b"a"), left(snapshot=b"b", caller="bob")], NOW)
    assert kept.take_request("req-1", "alice", NOW) == taken("req-1", b"a")
    assert kept.take_request("req-1", "bob", NOW) == taken("req-1", b"b")


def test_what_is_kept_later_counts_and_what_was_kept_before_does_not(kept: Kept) -> None:
    first, second = left(snapshot=b"first"), left(snapshot=b"second", now=NOW + 1)
    kept.keep([first], NOW)
    kept.keep([second], NOW + 1)
    assert kept.take(first.token.text, "alice", NOW + 2) == NotGood(Why.SPENT)
    assert kept.take_request("req-1", "alice", NOW + 2) == taken("req-1", b"second")


def test_a_request_that_is_interrupted_again_is_kept_again(kept: Kept) -> None:
    for number in range(3):
        snapshot = b"%d" % number
        kept.keep([left(snapshot=snapshot, now=NOW + number)], NOW + number)
        assert kept.take_request("req-1", "alice", NOW + number) == taken("req-1", snapshot)


def test_what_has_expired_is_not_taken_up_and_is_forgotten(
    kept: Kept, shared: TestedDatabase
) -> None:
    old, young = left("req-1"), left("req-2", now=NOW + 1)
    kept.keep([old, young], NOW)
    then = NOW + GOOD_FOR
    assert kept.take_request("req-1", "alice", then) == NotGood(Why.EXPIRED)
    assert kept.take(old.token.text, "alice", then) == NotGood(Why.EXPIRED)
    assert kept.forget(then - 0.001) == 0
    assert kept.forget(then) == 1
    assert kept.take_request("req-1", "alice", then) == NotGood(Why.NOT_KEPT)
    with shared.read() as connection:
        assert connection.scalar(select(func.count()).select_from(resumptions)) == 1
    assert kept.take(young.token.text, "alice", then) == taken("req-2", SNAPSHOT)


def test_a_token_behind_which_nothing_was_kept_is_not_good(kept: Kept) -> None:
    kept.keep([], NOW)
    assert kept.take(SEAL.token("alice", NOW).text, "alice", NOW) == NotGood(Why.NOT_KEPT)
    assert kept.take("nonsense", "alice", NOW) == NotGood(Why.MALFORMED)


def test_the_database_never_shows_a_prompt_and_is_wiped_by_taking(
    kept: Kept, shared: TestedDatabase
) -> None:
    def sealed() -> list[bytes]:
        with shared.read() as connection:
            return [bytes(row.sealed) for row in connection.execute(select(resumptions))]

    kept.keep([left()], NOW)
    assert b"secret" not in sealed()[0]
    kept.keep([left()], NOW)
    kept.take_request("req-1", "alice", NOW)
    assert sealed() == [b"", b""]


def test_a_replica_without_the_key_spends_nothing(kept: Kept, shared: TestedDatabase) -> None:
    one = left()
    kept.keep([one], NOW)
    stranger = Kept(shared, Seal((NEW_KEY,), GOOD_FOR))
    assert stranger.take_request("req-1", "alice", NOW) == NotGood(Why.UNKNOWN_KEY)
    rotated = Kept(shared, Seal((NEW_KEY, KEY), GOOD_FOR))
    assert rotated.take(one.token.text, "alice", NOW) == taken("req-1", SNAPSHOT)


@pytest.mark.parametrize("by_token", [True, False], ids=["by token", "by request"])
def test_of_replicas_that_take_it_at_the_same_time_one_gets_it(
    replicas: list[Kept], *, by_token: bool
) -> None:
    for round_ in range(10):
        one = left(f"req-{round_}")
        replicas[0].keep([one], NOW)
        together = Barrier(len(replicas))

        def take(kept: Kept, one: Left = one, together: Barrier = together) -> Taken | NotGood:
            together.wait(60.0)
            if by_token:
                return kept.take(one.token.text, "alice", NOW)
            return kept.take_request(one.request_id, "alice", NOW)

        with ThreadPoolExecutor(len(replicas)) as pool:
            came = list(pool.map(take, replicas))
        assert came.count(taken(one.request_id, SNAPSHOT)) == 1
        assert came.count(NotGood(Why.SPENT)) == len(replicas) - 1


class CountingDatabase(TestedDatabase):
    """Counts its transactions."""

    writes = 0

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self.writes += 1
        with super().write() as connection:
            yield connection


def test_streams_that_end_together_are_few_transactions(database_url: str) -> None:
    database = CountingDatabase(database_url)
    shelf = Shelf(Kept(database, SEAL), lambda: NOW)
    streams = [left(f"req-{number}") for number in range(200)]

    async def run() -> list[Taken | NotGood]:
        await asyncio.gather(*map(shelf.keep, streams))
        assert database.writes <= 3
        await shelf.keep(left("req-late"))
        return [await shelf.take(one.token.text, "alice") for one in streams[::50]]

    came = asyncio.run(run())
    assert came == [taken(f"req-{number}", SNAPSHOT) for number in range(0, 200, 50)]
    late = asyncio.run(shelf.take_request("req-late", "alice"))
    assert isinstance(late, Taken)
    asyncio.run(shelf.give_back(late, "alice"))
    assert asyncio.run(shelf.take_request("req-late", "alice")) == taken("req-late", SNAPSHOT)
    assert asyncio.run(shelf.forget()) == 0
    database.close()


def test_a_database_that_is_gone_is_told_to_everyone_who_waits() -> None:
    shelf = Shelf(Kept(BrokenDatabase(), SEAL), lambda: NOW)

    async def run() -> list[object]:
        waiting = [shelf.keep(left(f"req-{number}")) for number in range(5)]
        return await asyncio.gather(*waiting, return_exceptions=True)

    for _ in range(2):
        assert [type(error) for error in asyncio.run(run())] == [OSError] * 5
