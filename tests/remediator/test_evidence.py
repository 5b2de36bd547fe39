"""Evidence from real servers and real programs, in real folders."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleet.backend import Backend
from remediator import evidence
from remediator.evidence import Evidence
from tests.fleet.listeners import Connection, Listener, Request, closed_port, reply, serving
from tests.remediator.fakes import Stuck
from tests.remediator.making import at, backend
from tests.remediator.processes import DEAF, GRANDCHILD, gone_within
from tests.remediator.tiny_vllm import TinyVLLM

# Well before a program that sleeps or a server that hangs would end.
SOON = 20.0
NAME = "20260301T120000Z-gpu-a-7"
PAGES = {"about.json", "health.txt", "metrics-1.prom", "metrics-2.prom", "models.json"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "BETWEEN_SECONDS", 0.1)


def saved(tmp_path: Path, of: Backend, *, timeout: float = 20.0, keep: int = 100) -> Path:
    where = Evidence(tmp_path / "evidence", timeout, keep).save(of, 7, at(0))
    assert where == str(tmp_path / "evidence" / NAME)
    return Path(where)


def about(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "about.json").read_text())
    return content


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def python(script: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script, *args)


def command(folder: Path, number: int = 1) -> tuple[list[str], str]:
    """The lines at the head of a command's file, and what it wrote."""
    (file,) = folder.glob(f"command-{number}-*.txt")
    head, _, output = file.read_text().partition("\n\n")
    return head.split("\n"), output


def test_the_pages_are_saved_and_a_file_tells_about_them(tmp_path: Path) -> None:
    with TinyVLLM(health=503) as server:
        folder = saved(tmp_path, backend(url=server.url))
    assert names(folder) == PAGES
    assert "vllm:num_requests_running" in (folder / "metrics-1.prom").read_text()
    assert (folder / "health.txt").read_text() == "http_error: /health answered HTTP 503\n"
    assert json.loads((folder / "models.json").read_text()) == {"data": [{"id": "tiny"}]}
    told = about(folder)
    assert told["attempt"] == 7
    assert told["backend"] == "gpu-a"
    assert told["at"] == "2026-03-01T12:00:00Z"
    assert set(told["saved"]) == PAGES - {"about.json"}
    assert told["failed"] == {
        "version.json": "not_found: /version answered HTTP 404: there is no such page"
    }


def test_two_looks_at_the_metrics_show_what_did_not_move(tmp_path: Path) -> None:
    with TinyVLLM() as server:
        folder = saved(tmp_path, backend(url=server.url))
    first, second = (
        (folder / f"metrics-{number}.prom").read_text().splitlines() for number in (1, 2)
    )
    moved = [line.split()[0] for line, then in zip(first, second, strict=True) if line != then]
    assert moved == ["process_cpu_seconds_total"]


def test_a_server_that_is_healthy_has_its_answer_timed(tmp_path: Path) -> None:
    with TinyVLLM() as server:
        folder = saved(tmp_path, backend(url=server.url))
    assert (folder / "health.txt").read_text().startswith("answered in 0.")


def test_without_a_folder_nothing_is_saved() -> None:
    assert Evidence(None, 20.0, 100).save(backend(), 7, at(0)) is None


def test_a_server_that_is_gone_is_evidence_too(tmp_path: Path) -> None:
    with closed_port() as port:
        folder = saved(tmp_path, backend(url=f"http://127.0.0.1:{port}"))
    assert names(folder) == {"about.json", "health.txt"}
    assert (folder / "health.txt").read_text().startswith("refused: ")
    assert about(folder)["failed"]["metrics-1.prom"] == "refused: the connection was refused"


def silent(connection: Connection) -> None:
    connection.wait_until_closed()


def dripping(connection: Connection) -> None:
    connection.request()
    connection.drip(reply("x" * 10_000))


@pytest.mark.parametrize("handler", [silent, dripping])
def test_a_server_that_hangs_takes_no_longer_than_the_bound(
    tmp_path: Path, handler: Callable[[Connection], None]
) -> None:
    with Listener(handler) as server:
        began = time.monotonic()
        folder = saved(
            tmp_path, backend(url=server.url, evidence=(python("print('stack')"),)), timeout=2.0
        )
        assert time.monotonic() - began < SOON
    told = about(folder)
    assert told["failed"]["metrics-1.prom"].startswith("timeout: ")
    assert command(folder)[1] == "stack\n"


def test_a_command_has_its_argv_its_status_and_its_seconds_before_its_output(
    tmp_path: Path,
) -> None:
    script = (
        "import os, sys; print(os.environ['LIFEGUARD_BACKEND'], os.environ['LIFEGUARD_URL'],"
        " flush=True); print('err', file=sys.stderr); sys.exit(3)"
    )
    with closed_port() as port:
        url = f"http://127.0.0.1:{port}"
        folder = saved(tmp_path, backend(url=url, evidence=(python(script, "$HOME"),)))
    head, output = command(folder)
    assert json.loads(head[0].removeprefix("argv: "))[-1] == "$HOME"
    assert head[1] == "exit status: 3"
    assert head[2].startswith("seconds: ")
    assert output == f"gpu-a {url}\nerr\n"


def test_a_command_that_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    folder = saved(tmp_path, backend(evidence=(("/no/such/py-spy", "dump"), ("\ud800",))))
    failed = about(folder)["failed"]
    why = "'/no/such/py-spy' cannot be run: No such file or directory"
    assert failed["command-1-py-spy.txt"] == why
    assert "cannot be run" in failed["command-2-_.txt"]


def test_commands_run_side_by_side_and_are_killed_with_all_their_children(tmp_path: Path) -> None:
    left = tmp_path / "left"
    both = (python(GRANDCHILD, str(left)), python(DEAF), python("print('well')"))
    began = time.monotonic()
    folder = saved(tmp_path, backend(evidence=both), timeout=4.0)
    assert time.monotonic() - began < SOON
    for number in (1, 2):
        head, _ = command(folder, number)
        assert head[1] == "exit status: none"
        assert head[3].startswith("end: the command did not end within 3.")
        assert head[3].endswith(" s and was killed")
    assert command(folder, 2)[1] == "deaf\n"
    assert command(folder, 3)[1] == "well\n"
    assert gone_within(int(left.read_text()), 2.0)


def test_what_a_command_leaves_behind_is_killed(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys;"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']).pid)"
    )
    folder = saved(tmp_path, backend(evidence=(python(script),)))
    head, output = command(folder)
    assert head[1] == "exit status: 0"
    assert gone_within(int(output), 2.0)


def test_what_escapes_its_group_and_writes_on_holds_nobody(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys; print(subprocess.Popen("
        "[sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True).pid)"
    )
    began = time.monotonic()
    folder = saved(tmp_path, backend(evidence=(python(script),)))
    pid = int(command(folder)[1])
    os.kill(pid, 9)
    assert time.monotonic() - began < SOON


def test_a_command_that_floods_is_stopped_and_its_ends_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remediator.capture.FLOOD_BYTES", 8 * 1024 * 1024)
    script = "import sys\nprint('first')\nwhile True: sys.stdout.write('x' * 65536)"
    folder = saved(tmp_path, backend(evidence=(python(script),)))
    head, output = command(folder)
    assert head[3] == "end: the command wrote more than 8388608 bytes and was killed"
    assert output.startswith("first\nxxx")
    assert " bytes are left out here]" in output
    (file,) = folder.glob("command-1-*")
    assert file.stat().st_size <= evidence.MOST_BYTES


def test_a_long_output_keeps_its_first_and_its_last_bytes(tmp_path: Path) -> None:
    script = "print('first'); print('x' * 3_000_000); print('last')"
    _, output = command(saved(tmp_path, backend(evidence=(python(script),))))
    assert output.startswith("first\n")
    assert output.endswith("x\nlast\n")


def test_a_page_is_cut_and_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "MOST_BYTES", 1000)
    with Listener(serving(lambda _: reply("x" * 2000))) as server:
        folder = saved(tmp_path, backend(url=server.url))
    assert (folder / "metrics-1.prom").stat().st_size == 1000
    assert about(folder)["saved"]["metrics-1.prom"] == "1000 bytes, the first of 2000"


def test_many_commands_share_what_the_folder_may_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "MOST_BYTES_IN_ALL", 100_000)
    commands = (python("print('x' * 100_000)"),) * 5
    folder = saved(tmp_path, backend(evidence=commands))
    assert sum(path.stat().st_size for path in folder.iterdir()) < 100_000
    assert len(list(folder.glob("command-*"))) == 5


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    folder = saved(tmp_path, backend(evidence=(python("print('a prompt')"),)))
    modes = {path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o700


def test_the_api_key_is_sent_and_never_saved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-very-secret"
    (tmp_path / "key").write_text(key + "\n")
    seen: list[str] = []

    def echo(request: Request) -> bytes:
        seen.append(request.headers["authorization"])
        return reply(request.headers["authorization"])

    with Listener(serving(echo)) as server:
        one = backend(
            url=server.url,
            api_key_file=tmp_path / "key",
            evidence=(python(f"print('vllm serve --api-key {key}')"),),
        )
        folder = saved(tmp_path, one)
    assert seen == [f"Bearer {key}"] * 5
    assert (folder / "models.json").read_text() == "Bearer [api key]"
    assert command(folder)[1] == "vllm serve --api-key [api key]\n"
    assert not any(key in path.read_text() for path in folder.iterdir())
    assert key not in caplog.text


def test_a_folder_that_cannot_be_made_is_in_nobodys_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "evidence").write_text("a file where a folder ought to be")
    assert Evidence(tmp_path / "evidence", 20.0, 100).save(backend(), 7, at(0)) is None
    assert "event=no_evidence backend=gpu-a" in caplog.text


def test_what_was_saved_is_never_written_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = saved(tmp_path, backend())
    before = (folder / "about.json").read_text()
    assert Evidence(tmp_path / "evidence", 20.0, 100).save(backend(), 7, at(0)) is None
    assert "event=no_evidence" in caplog.text
    assert (folder / "about.json").read_text() == before


# A file of more than so many bytes cannot be written then, as on a disk that is full.
FULL_DISK = """
import resource, sys
from pathlib import Path
from remediator.evidence import Evidence
from tests.remediator.making import at, backend
script = "print('x' * 100_000)"
one = backend(evidence=((sys.executable, "-c", script), (sys.executable, "-c", "print('y')")))
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
print(Evidence(Path(sys.argv[1]), 20.0, 100).save(one, 7, at(0)))
"""


def on_full_disk(tmp_path: Path, most_bytes: int) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-c", FULL_DISK, str(tmp_path), str(most_bytes)]
    root = Path(__file__).parents[2]
    return subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=60, check=True)


def test_a_disk_that_fills_up_costs_what_does_not_fit(tmp_path: Path) -> None:
    ran = on_full_disk(tmp_path, 4096)
    assert ran.stdout == f"{tmp_path / NAME}\n"
    folder = tmp_path / NAME
    program = Path(sys.executable).name
    assert f"command-1-{program}.txt" not in names(folder)
    assert f"command-2-{program}.txt" in names(folder)
    assert about(folder)["failed"][f"command-1-{program}.txt"].startswith("cannot be saved: ")


def test_a_disk_that_is_full_saves_nothing_and_says_so(tmp_path: Path) -> None:
    ran = on_full_disk(tmp_path, 0)
    assert ran.stdout == "None\n"
    assert "event=no_evidence backend=gpu-a" in ran.stderr
    assert names(tmp_path / NAME) == set()


def test_a_name_that_takes_long_to_resolve_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # No socket's timeout bounds this, and no resolver here hangs on demand.
    with Stuck() as resolver:
        monkeypatch.setattr("socket.getaddrinfo", resolver)
        folder = saved(tmp_path, backend(evidence=(python("print('stack')"),)), timeout=3.0)
        assert not resolver.released.is_set()
    assert about(folder)["failed"]["models.json"] == "did not end in time"
    assert command(folder)[1] == "stack\n"
    assert "late_evidence" not in caplog.text


def test_a_disk_that_hangs_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Stuck() as disk:
        monkeypatch.setattr(Path, "mkdir", disk)
        assert Evidence(tmp_path / "evidence", 0.5, 100).save(backend(), 7, at(0)) is None
        assert not disk.released.is_set()
    assert "event=late_evidence backend=gpu-a" in caplog.text


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    keeping = Evidence(tmp_path, 20.0, 2)
    for number in range(4):
        keeping.save(backend(), number, at(number))
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["2", "3"]


def test_what_was_just_saved_is_kept_though_the_clock_went_back(tmp_path: Path) -> None:
    keeping = Evidence(tmp_path, 20.0, 1)
    keeping.save(backend(), 1, at(0))
    assert keeping.save(backend(), 2, at(-60)) is not None
    assert {path.name[-1] for path in tmp_path.iterdir()} == {"1", "2"}
