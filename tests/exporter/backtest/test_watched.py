"""What is made of one target's looks: the would-be restarts and how each ended."""

from collections.abc import Callable

import pytest

from exporter.backtest.episode import End, Episode
from exporter.backtest.looks import looks
from exporter.backtest.watched import Watched, finished, restarts, watch
from tests.exporter.backtest.kept import START, Server

Life = Callable[[Server], None]


def watched(server: Server, *, wait: float = 90.0, until: float | None = None) -> Watched:
    seen = Watched()
    for look in looks(server.series, server.target, after=0):
        seen = watch(seen, look, interval=15.0, wait=wait)
    return finished(seen, until=server.at if until is None else until, interval=15.0)


def hang_and(after: Life) -> Life:
    def life(server: Server) -> None:
        server.busy(150)
        server.hung(300)
        after(server)

    return life


def nothing(_: Server) -> None:
    pass


def restart(server: Server) -> None:
    server.restarted(START + 450.0)
    server.busy(60)


def blind_then_alive(server: Server) -> None:
    server.away(600)
    server.busy(60)


def blind_then_hung(server: Server) -> None:
    server.away(600)
    server.hung(600)


def failing_then_restarted(server: Server) -> None:
    server.failing(150)
    restart(server)


@pytest.mark.parametrize(
    ("life", "end", "after_proof"),
    [
        (hang_and(lambda server: server.busy(60)), End.CAME_BACK, 135.0),
        (hang_and(restart), End.RESTARTED, 135.0),
        (hang_and(nothing), End.STILL_HUNG, 120.0),
        (hang_and(blind_then_alive), End.CAME_BACK, 735.0),
        (hang_and(blind_then_hung), End.STILL_HUNG, 1320.0),
        (hang_and(failing_then_restarted), End.RESTARTED, 285.0),
        (hang_and(lambda server: server.failing(600)), End.DATA_ENDED, 120.0),
    ],
    ids=[
        "it moves again",
        "another process",
        "nothing more",
        "it moves after a time without looks",
        "still hung after a time without looks: one hang, not two",
        "another process after an absence",
        "never seen again",
    ],
)
def test_a_hang_and_its_end(life: Life, end: End, after_proof: float) -> None:
    server = Server("a:1")
    life(server)
    (episode,) = watched(server).episodes
    assert (episode.end, episode.after_proof) == (end, after_proof)
    # The last move was seen at 135 s, the tenth scrape.
    assert episode.silent_since == START + 135
    assert (episode.proven_at, episode.quiet) == (START + 135 + 180, 180.0)
    assert episode.why.startswith("stuck: 2 running, 1 waiting, and nothing moved for 180 s")


def test_series_that_end_before_the_end_do_not_show_a_hang_there() -> None:
    server = Server("a:1")
    server.busy(150)
    server.hung(300)
    (episode,) = watched(server, until=server.at + 600).episodes
    assert episode.end is End.DATA_ENDED
    assert episode.ended_at == server.at - 15


@pytest.mark.parametrize(
    "life",
    [
        lambda server: server.prefill(1200),
        lambda server: server.deferred(1200),
        lambda server: server.idle(1200),
        lambda server: server.hung(165),
        lambda server: server.failing(1200),
        lambda server: server.away(1200),
    ],
    ids=[
        "a long prefill, in which only KV usage moves",
        "all that waits, waits for something else",
        "nothing to do",
        "silence of less than two waits",
        "failed scrapes",
        "no scrapes",
    ],
)
@pytest.mark.parametrize("born", [None, START - 60.0], ids=["no start time", "start time"])
def test_what_is_no_hang(life: Life, born: float | None) -> None:
    server = Server("a:1", born=born)
    server.busy(150)
    life(server)
    server.busy(60)
    assert watched(server).episodes == ()


def test_one_rank_hangs_while_the_other_works() -> None:
    server = Server("a:1", engines=("0", "1"))
    server.busy(150)
    server.busy(300, hung=("1",))
    server.busy(60)
    seen = watched(server)
    assert [(one.engine, one.end) for one in seen.episodes] == [("1", End.CAME_BACK)]
    assert seen.longest is not None
    assert (seen.longest.engine, seen.longest.seconds) == ("1", 315.0)


def test_the_longest_healed_silence_may_be_shorter_than_two_waits() -> None:
    server = Server("a:1")
    for seconds in (30, 150, 60):
        server.busy(60)
        server.hung(seconds)
    server.busy(60)
    seen = watched(server)
    assert seen.longest is not None
    assert seen.longest.seconds == 165.0
    assert seen.longest.ended_at == START + 60 + 30 + 60 + 150


def test_the_longest_healed_silence_is_that_of_any_engine() -> None:
    server = Server("a:1", engines=("0", "1"))
    server.busy(150)
    server.busy(150, hung=("0",))
    server.busy(150)
    server.busy(60, hung=("1",))
    server.busy(150)
    longest = watched(server).longest
    assert longest is not None
    assert (longest.engine, longest.seconds, longest.interval) == ("0", 165.0, 15.0)


def test_a_silence_that_a_restart_ended_did_not_heal() -> None:
    server = Server("a:1")
    server.busy(150)
    server.hung(120)
    restart(server)
    seen = watched(server)
    assert seen.longest is None
    assert seen.history.restarts == 1


def test_behind_a_proxy_nothing_is_proven() -> None:
    """Start times that go back and forth are several processes at one address."""
    server = Server("a:1")
    for born in (1.0, 2.0, 1.0, 2.0):
        server.restarted(born)
        server.busy(30)
    server.hung(285)
    assert watched(server).episodes == ()


def test_what_was_looked_at_is_counted() -> None:
    server = Server("a:1", engines=("0", "1"), born=None)
    server.busy(150)
    server.failing(30)
    server.busy(150)
    server.away(600)
    server.busy(150)
    seen = watched(server)
    assert (seen.looks, seen.failed) == (32, 2)
    # Two engines over 135 + 45 + 135 and, after the time without looks, 135 seconds.
    assert seen.engine_seconds == 2 * (135 + 45 + 135 + 135)
    assert seen.engines == {"0", "1"}
    assert (seen.first, seen.last) == (START, START + 30 * 15 + 30 + 600 - 15)
    assert (seen.identified, seen.measured) == (False, True)


def episode(engine: str, proven_at: float, ended_at: float) -> Episode:
    return Episode(engine, proven_at - 180, proven_at, 180.0, "stuck", End.CAME_BACK, ended_at)


@pytest.mark.parametrize(
    ("episodes", "count"),
    [
        ([], 0),
        ([episode("0", 100, 200)], 1),
        ([episode("0", 100, 200), episode("1", 150, 300)], 1),
        ([episode("0", 100, 200), episode("1", 150, 300), episode("0", 250, 400)], 1),
        ([episode("0", 100, 200), episode("1", 200, 300)], 2),
        ([episode("1", 250, 300), episode("0", 100, 200)], 2),
    ],
    ids=["none", "one", "two at once", "a chain", "one after the other", "in no order"],
)
def test_engines_that_hang_together_are_one_restart(episodes: list[Episode], count: int) -> None:
    assert restarts(tuple(episodes)) == count
