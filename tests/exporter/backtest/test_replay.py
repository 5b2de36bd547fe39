"""The backtest over a real Prometheus that holds days of known hangs."""

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from demo import parts
from demo.child import Child, free_ports
from exporter.__main__ import main
from tests.exporter.backtest.kept import BORN, START, Server
from tests.fleet.listeners import eventually

ROOT = Path(__file__).parents[3]
DAY = 86_400
UNTIL = START + 3 * DAY


def healthy_for_days() -> Server:
    """Everything that has once been taken for a hang, and one hang that was ended by hand."""
    server = Server("10.0.0.1:8000", engines=("0",))
    server.busy(3600)
    server.hung(150)  # a long compilation: 165 s from move to move
    server.busy(3600)
    server.prefill(900)
    server.busy(600)
    server.deferred(900)
    server.busy(600)
    server.idle(7200)
    server.busy(START + DAY - 600 - server.at)
    server.hung(1800)  # over the end of a day, until somebody restarts it
    server.away(60)
    server.restarted(START + DAY + 1200.0)
    server.busy(START + 2 * DAY - server.at)
    server.hung(120)
    server.failing(60)
    server.hung(120)  # 240 s of silence were watched, so it is proven
    server.busy(UNTIL - server.at + 15)
    return server


def two_ranks() -> Server:
    """One rank hangs and comes back; later both hang and nobody does anything."""
    server = Server("10.0.0.2:8000", engines=("0", "1"), at=UNTIL - 4 * 3600)
    server.busy(3600)
    server.busy(240, hung=("1",))
    server.busy(3600)
    server.hung(UNTIL - server.at + 15)
    return server


def without_start_time() -> Server:
    server = Server("10.0.0.3:8000", at=UNTIL - 8 * 3600, born=None)
    server.busy(3600)
    server.hung(600)
    server.restarted(None)
    server.busy(3600)
    server.hung(120)
    server.failing(60)
    server.hung(120)  # who hung after the absence is not known: nothing is proven
    server.busy(UNTIL - server.at + 15)
    return server


def vanished() -> Server:
    server = Server("10.0.0.4:8000", at=START + 3600)
    server.busy(3600)
    server.hung(900)
    return server


def coarse() -> Server:
    server = Server("10.0.0.5:8000", interval=60)
    server.busy(3600)
    server.hung(120)
    server.busy(UNTIL - server.at + 60)
    return server


def slower() -> Server:
    """Scraped every 15 s, later every 120 s: five old intervals are no blindness then."""
    server = Server("10.0.0.6:8000", at=UNTIL - 2 * DAY)
    server.busy(DAY)
    server.scraped_every(120)
    server.busy(3600)
    server.hung(600)
    server.busy(UNTIL - server.at + 120)
    return server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the blocks of all servers."""
    folder = tmp_path_factory.mktemp("kept")
    servers = (
        healthy_for_days(),
        two_ranks(),
        without_start_time(),
        vanished(),
        coarse(),
        slower(),
    )
    kept = folder / "kept.om"
    kept.write_text("".join(server.openmetrics for server in servers) + "# EOF\n")
    create = [parts.find().promtool, "tsdb", "create-blocks-from", "openmetrics"]
    subprocess.run(
        [*create, "--max-block-duration=64h", kept, folder / "data"],
        check=True,
        capture_output=True,
    )
    (folder / "prometheus.yml").write_text("")
    # The password is "test".
    (folder / "web.yml").write_text(
        "basic_auth_users:\n  admin: $2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay\n"
    )
    return folder


@contextlib.contextmanager
def started(folder: Path, *flags: str) -> Iterator[str]:
    """A real Prometheus over a copy of the blocks; its URL."""
    (port,) = free_ports(1)
    data = folder / f"data-{port}"
    shutil.copytree(folder / "data", data)
    url = f"http://127.0.0.1:{port}"
    child = Child(
        f"prometheus-{port}",
        [
            parts.find().prometheus,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=20y",
            f"--web.listen-address=127.0.0.1:{port}",
            *flags,
        ],
        folder,
    )
    try:
        assert eventually(lambda: not child.is_running or listens(port), 60.0, every=0.05)
        yield url
    finally:
        child.stop()


def listens(port: int) -> bool:
    """Whether it answers that it is ready, or that it does not know us."""
    try:
        answer = requests.get(f"http://127.0.0.1:{port}/-/ready", timeout=2)
    except requests.RequestException:
        return False
    return answer.status_code in (200, 401)


@pytest.fixture(scope="module")
def prometheus(folder: Path) -> Iterator[str]:
    with started(folder) as url:
        yield url


def backtest(url: str, *flags: str) -> int:
    return main(["backtest", "--prometheus", url, "--since", "3d", "--until", str(UNTIL), *flags])


def found(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    said = capsys.readouterr()
    assert said.err == ""
    return dict(json.loads(said.out))


# instance, engine, silent since, proven, seconds counted then, end, when, how
HANGS = [
    ("4", "0", "09T10:59:45", "09T11:02:45", 180.0, "data_ended", "09T11:14:45", ""),
    (
        *("1", "0", "10T08:49:45", "10T08:52:45", 180.0, "restarted", "10T09:21:00"),
        f"start time changed from {BORN:.0f} to {START + DAY + 1200}",
    ),
    # The same rank and server, with a minute of failed scrapes that does not count.
    ("1", "0", "11T08:59:45", "11T09:04:00", 180.0, "came_back", "11T09:05:00", ""),
    ("6", "0", "11T09:58:00", "11T10:02:00", 240.0, "came_back", "11T10:10:00", ""),
    (
        *("3", "0", "12T01:59:45", "12T02:02:45", 180.0, "restarted", "12T02:10:00"),
        "steps of engine 0 fell from 12000 to 50",
    ),
    ("2", "1", "12T05:59:45", "12T06:02:45", 180.0, "came_back", "12T06:04:00", ""),
    ("2", "0", "12T07:03:45", "12T07:06:45", 180.0, "still_hung", "12T09:00:00", ""),
    ("2", "1", "12T07:03:45", "12T07:06:45", 180.0, "still_hung", "12T09:00:00", ""),
]
# instance: interval, engine-hours, failed, restarts, longest healed silence, suggested wait
TARGETS = {
    "1": (15.0, 71.975, 4, 1, 240.0, 155.0),
    "2": (15.0, 8.0, 0, 0, 255.0, 165.0),
    "3": (15.0, 7.996, 4, 1, None, None),
    "4": (15.0, 1.246, 0, 0, None, None),
    "5": (60.0, 71.983, 0, 0, 180.0, 145.0),
    "6": (120.0, 48.0, 0, 0, 720.0, 505.0),
}


def hangs(said: dict[str, Any]) -> list[tuple[Any, ...]]:
    def moment(text: str) -> str:
        return str(text).removeprefix("2025-10-").removesuffix("Z")

    return [
        (
            number(hang),
            hang["engine"],
            moment(hang["silent_since"]),
            moment(hang["proven_at"]),
            hang["quiet_seconds"],
            hang["end"],
            moment(hang["ended_at"]),
            hang["how"],
        )
        for hang in said["hangs"]
    ]


def number(row: dict[str, Any]) -> str:
    """The digit by which the instances differ."""
    return str(row["target"]["instance"]).removeprefix("10.0.0.").removesuffix(":8000")


def test_each_known_hang_is_a_row_and_nothing_else_is(
    prometheus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert backtest(prometheus, "--json") == 1
    said = found(capsys)
    assert hangs(said) == HANGS
    assert {
        number(one): (
            one["scrape_interval_seconds"],
            one["engine_hours"],
            one["failed_scrapes"],
            one["restarts_seen"],
            (one["longest_healed_silence"] or {"seconds": None})["seconds"],
            one["suggested_wait_seconds"],
        )
        for one in said["targets"]
    } == TARGETS
    assert said["summary"] == {
        "targets": 6,
        "engine_hours": 209.2,
        "would_be_restarts": 7,  # the two ranks at the end are one
        "ended": {"came_back": 3, "restarted": 2, "still_hung": 2, "data_ended": 1},
        "longest_healed_silence_seconds": 720.0,
        "suggested_wait_seconds": 505.0,
    }


def test_a_longer_wait_finds_less(prometheus: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of the suggested waits are longer than every silence that healed."""
    some = ["--match", '{instance=~"10.0.0.[26]:.*"}']
    assert backtest(prometheus, "--json", "--wait", "505s", *some) == 1
    assert found(capsys)["summary"]["ended"] == {
        "came_back": 0,
        "restarted": 0,
        "still_hung": 2,
        "data_ended": 0,
    }


def test_without_a_would_be_restart_the_status_is_0(
    prometheus: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert backtest(prometheus, "--json", "--match", '{instance=~"10.0.0.5:.*"}') == 0
    said = found(capsys)
    assert [number(one) for one in said["targets"]] == ["5"]
    assert said["hangs"] == []


def test_a_prometheus_that_takes_few_samples_is_asked_for_shorter_pieces(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half an hour of one target is about this much; the rows are the same."""
    with started(folder, "--query.max-samples=1500") as url:
        assert backtest(url, "--json", "--match", '{instance=~"10.0.0.[23]:.*"}') == 1
    assert hangs(found(capsys)) == [hang for hang in HANGS if hang[0] in "23"]


def test_a_prometheus_that_takes_too_few_samples_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(folder, "--query.max-samples=10") as url:
        assert backtest(url) == 2
    too_much = "even 300 s of one target are too much for it (its --query.max-samples?)"
    assert capsys.readouterr().err == f"{url}: HTTP 422: {too_much}\n"


def test_a_prometheus_that_wants_to_know_who_asks_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(folder, f"--web.config.file={folder / 'web.yml'}") as url:
        assert backtest(url) == 2
    wants = "it wants a token that it accepts (--bearer-token-file)"
    assert capsys.readouterr().err == f"{url}: HTTP 401: {wants}\n"


@pytest.mark.parametrize(
    ("path", "flags", "sentence"),
    [
        ("", ["--since", "1h", "--until", "2025-01-01T00:00:00Z"], "no series of a vLLM in that"),
        ("", ["--match", '{job="other"}'], 'no series of a vLLM in that time for {job="other"}'),
        ("", ["--match", "{job=}"], "HTTP 400: it does not accept the selector of --match"),
        ("/elsewhere", [], "HTTP 404: there is no API of a Prometheus at this URL"),
    ],
    ids=["nothing kept then", "nothing of that job", "a broken selector", "another path"],
)
def test_what_a_prometheus_cannot_answer_is_one_sentence(
    prometheus: str,
    path: str,
    flags: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert backtest(prometheus + path, *flags) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"{prometheus}{path}: {sentence}")
    assert said.err.count("\n") == 1


def test_in_a_pipe_each_hang_is_one_plain_line(prometheus: str) -> None:
    some = ["--match", '{instance=~"10.0.0.[23]:.*"}']
    argv = ["backtest", "--prometheus", prometheus, "--since", "3d", "--until", str(UNTIL), *some]
    done = subprocess.run(
        [sys.executable, "-m", "exporter", *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "\x1b" not in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    found = [row[:3] for row in rows if row and row[0].startswith("2025-10-")]
    assert found == [
        [f"2025-10-{hang[3]}Z", f"vllm/10.0.0.{hang[0]}:8000", hang[1]]
        for hang in HANGS
        if hang[0] in "23"
    ]
