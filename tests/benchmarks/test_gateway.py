"""The benchmark of the gateway: what it counts, and a small one of it, played in full."""

import json
from pathlib import Path

import pytest

from benchmarks.gateway.cores import Cores, pinned
from benchmarks.gateway.environment import NotInstallableError, program
from benchmarks.gateway.figures import figures
from benchmarks.gateway.load import Plan, Seen
from benchmarks.gateway.measure import plan, seen
from benchmarks.gateway.paced import HEAD, Frames
from benchmarks.gateway.peers import PEERS
from benchmarks.gateway.tree import members, use
from gateway.ask import Route, ask, first_body
from gateway.stream import State, Stream

PLAN = Plan(
    port=0,
    relay=0,
    streams=100,
    rate=50.0,
    ramp=1.0,
    settle=0.5,
    window=10.0,
    probing=5.0,
    probes=20.0,
    patience=20.0,
)


def unchunked(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, rest = data.partition(b"\r\n")
        body += rest[: int(size, 16)]
        data = rest[int(size, 16) + 2 :]
    return body


def test_the_paced_servers_frames_are_what_the_gateway_takes_for_vllms() -> None:
    wanted = {"model": "tiny", "messages": [{"role": "user", "content": "?"}], "max_tokens": 40}
    asked = ask(Route.CHAT, json.dumps(wanted | {"stream": True}).encode(), forbid_resume=False)
    frames = Frames("chatcmpl-1", json.loads(first_body(asked)))
    assert HEAD.endswith(b"\r\n\r\n")
    stream = Stream(asked, "r", 1)
    pieces = [frames.opening(), *(frames.token() for _ in range(40))]
    steps = [stream.feed(unchunked(piece)) for piece in pieces]
    assert steps[-1].state is State.COMPLETE
    assert len(stream.delivered) == 40
    assert stream.prompt_tokens == 32
    assert b" lifeguard" in steps[2].out


def test_a_client_that_asks_for_less_gets_less() -> None:
    frames = Frames("chatcmpl-1", {"max_tokens": 2})
    told = unchunked(frames.opening() + frames.token() + frames.token())
    assert b"usage" not in told
    assert b"token_ids" not in told
    assert told.count(b"data: ") == 4
    assert told.endswith(b"data: [DONE]\n\n")


def test_what_a_relay_adds_is_against_the_same_load_without_it() -> None:
    direct = Seen(gaps=[0.020] * 100, firsts=[0.001] * 99 + [0.002])
    through = Seen(
        events=50_000,
        seconds=10.0,
        cpu=2.0,
        rss=5.0,
        whole=99,
        gaps=[0.020] * 98 + [0.023] * 2,
        firsts=[0.003] * 99 + [0.007],
    )
    cost = figures(PLAN, through, direct)
    assert cost.rate == 5000.0
    assert cost.keeps_up
    assert cost.cpu_us == pytest.approx(40.0)
    assert cost.core == pytest.approx(0.2)
    assert cost.first_p50 == pytest.approx(0.002)
    assert cost.first_p99 == pytest.approx(0.005)
    assert cost.gap_p99 == pytest.approx(0.003)
    assert cost.memory_kb == pytest.approx(50.0)
    assert cost.whole == pytest.approx(0.99)


@pytest.mark.parametrize(("events", "keeps_up"), [(47_500, True), (47_499, False)])
def test_a_relay_that_is_at_its_limit_is_told_from_one_that_keeps_up(
    events: int, *, keeps_up: bool
) -> None:
    assert figures(PLAN, Seen(events=events, seconds=10.0), Seen()).keeps_up is keeps_up


def test_where_the_load_itself_is_at_its_limit_no_times_are_told() -> None:
    limited = Seen(events=40_000, seconds=10.0, gaps=[0.1], firsts=[0.1])
    through = Seen(events=20_000, seconds=10.0, cpu=1.0, gaps=[0.2], firsts=[0.2])
    cost = figures(PLAN, through, limited)
    assert cost.cpu_us == pytest.approx(50.0)
    assert cost.first_p99 == cost.gap_p99 == float("inf")


def test_a_stream_lasts_until_everything_is_measured() -> None:
    assert PLAN.tokens == 50 * 16.5
    assert plan(10, 50.0, 4.0).window == 4.0


def test_a_tree_is_a_process_and_its_descendants(tmp_path: Path) -> None:
    for pid, parent in ((1, 0), (7, 1), (8, 7), (9, 8), (20, 1)):
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (a (b) c) S {parent} {'0 ' * 9}100 100 0\n")
        (folder / "status").write_text("VmRSS:\t    1000 kB\n")
    (tmp_path / "cpuinfo").write_text("")
    assert members(7, tmp_path) == {7, 8, 9}
    assert members(99, tmp_path) == set()
    used = use(7, tmp_path)
    assert (used.cpu, used.rss) == pytest.approx((6.0, 3.072))


def test_the_relay_has_a_core_that_the_load_does_not_have() -> None:
    cores = Cores.here()
    assert cores.relay != cores.load
    assert pinned(cores.relay, ["true"])[-2:] == [str(cores.relay), "true"]


def test_what_cannot_be_installed_says_why() -> None:
    with pytest.raises(NotInstallableError, match="no-such-package"):
        program("no-such-program", "./no-such-package")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["bare", "aiohttp", "nginx", "ours"])
def test_a_few_streams_go_through_a_relay_in_full(tmp_path: Path, name: str) -> None:
    few = plan(3, 50.0, 0.5)
    through = seen(tmp_path, Cores.here(), few, PEERS[name])
    assert through.whole == 3
    assert through.failed == 0
    assert through.events > 0
    assert len(through.firsts) == 10
