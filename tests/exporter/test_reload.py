"""The exporter as a program: what it watches follows its files and DNS, and nothing is lost."""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.rcode
import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from demo.child import Child, free_ports
from exporter.memory import Memory
from exporter.watch import ReloadBusyError, Watch
from fleet.settings import load
from tests.exporter.discovery.dns_server import DnsServer
from tests.fleet.listeners import Listener, Vllm, eventually, serving
from tests.fleet.pages import BUSY, page

ROOT = Path(__file__).parents[2]
QUICK = "exporter: {interval: 200ms, timeout: 200ms, answer_every: off}\n"
SUCCESSFUL = "vllm_exporter_config_last_reload_successful"
TIMESTAMP = "vllm_exporter_config_last_reload_success_timestamp_seconds"
FAILURES = "vllm_exporter_discovery_failures_total"
DISCOVERED = "vllm_exporter_discovered_backends"
READS = "vllm_backend_reads_total"
QUIET = "vllm_engine_quiet_seconds"


Samples = dict[tuple[str, ...], float]


def never_falls(scrapes: list[Samples], *key: str) -> bool:
    values = [scrape.get(key, -1.0) for scrape in scrapes]
    return values == sorted(values) and values[0] > 0


class Exporter:
    """A running exporter with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "fleet.yml"
        listen = f"127.0.0.1:{free_ports(1)[0]}"
        self.url = f"http://{listen}"
        self._flags = ["--config.file", str(self.file), "--web.listen-address", listen]

    def start(self) -> None:
        self.child = Child(
            "exporter",
            [sys.executable, "-m", "exporter", *self._flags],
            self.folder,
            env={"PYTHONPATH": str(ROOT)},
        )
        self.child.wait_ready(f"{self.url}/-/ready")

    def write(self, text: str) -> None:
        """A new fleet.yml, as an editor writes it: in one go."""
        new = self.folder / "fleet.yml.new"
        new.write_text(QUICK + text)
        new.rename(self.file)

    def targets(self, *targets: str) -> None:
        """A new file of targets."""
        self.write_targets(json.dumps([{"targets": targets}]))

    def write_targets(self, text: str) -> None:
        new = self.folder / "targets.json.new"
        new.write_text(text)
        new.rename(self.folder / "targets.json")

    def samples(self) -> Samples:
        text = requests.get(f"{self.url}/metrics", timeout=60).text
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, *key: str) -> float | None:
        return self.samples().get(key)

    def reads(self, backend: str) -> float:
        return self.value(READS, backend, "ok") or 0.0

    def watched(self) -> set[str]:
        """The backends of which any series is shown."""
        return {key[1] for key in self.samples() if key[0] == "vllm_backend_up"}

    def until(self, holds: Callable[[Samples], bool]) -> list[Samples]:
        """What is shown, scrape after scrape, until it holds."""
        scrapes: list[Samples] = []

        def one_more_holds() -> bool:
            scrapes.append(self.samples())
            return holds(scrapes[-1])

        assert eventually(one_more_holds)
        return scrapes

    def on_the_page(self) -> set[str]:
        return {
            one["backend"] for one in requests.get(f"{self.url}/api/backends", timeout=60).json()
        }

    def reload(self, method: str = "POST") -> tuple[int, str]:
        answer = requests.request(method, f"{self.url}/-/reload", timeout=40)
        return answer.status_code, answer.text

    def log(self) -> str:
        return self.child.log.read_text()


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Exporter]:
    exporter = Exporter(tmp_path)
    yield exporter
    status = exporter.child.stop()
    assert status == 0, exporter.log()
    assert "Traceback" not in exporter.log()


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """Two servers with work pending that never moves: their silence only grows."""
    with contextlib.ExitStack() as stack:
        servers = [Vllm(page=page({"0": BUSY}, 1000.0)) for _ in range(2)]
        yield [stack.enter_context(Listener(serving(s.answer))).port for s in servers]


def listed(name: str, port: int) -> str:
    return f"  - {{name: {name}, url: 'http://127.0.0.1:{port}'}}\n"


def test_sighup_brings_new_ones_drops_old_ones_and_loses_nothing(
    exporter: Exporter, ports: list[int]
) -> None:
    exporter.write("backends:\n" + listed("gpu-a", ports[0]) + listed("gpu-old", ports[1]))
    exporter.start()
    assert eventually(lambda: exporter.reads("gpu-a") >= 4)
    before = exporter.samples()
    exporter.write("backends:\n" + listed("gpu-new", ports[1]) + listed("gpu-a", ports[0]))
    exporter.child.signal(signal.SIGHUP)
    reads = before[READS, "gpu-a", "ok"]
    scrapes = exporter.until(
        lambda now: ("vllm_backend_up", "gpu-new") in now and now[READS, "gpu-a", "ok"] > reads + 2
    )
    after = scrapes[-1]
    assert exporter.on_the_page() == {"gpu-a", "gpu-new"}
    assert not any("gpu-old" in key for key in after)
    assert exporter.watched() == {"gpu-a", "gpu-new"}
    for rising in ((READS, "gpu-a", "ok"), (QUIET, "gpu-a", "0"), (TIMESTAMP,)):
        assert never_falls([before, *scrapes], *rising), rising
        assert after[rising] > before[rising], rising
    assert after["vllm_backend_restarts_total", "gpu-a"] == 0
    assert after["vllm_exporter_backends",] == 2
    assert "event=watching backends=2 added=gpu-new removed=gpu-old changed=" in exporter.log()


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_bad_file_keeps_the_old_one_and_says_why(
    method: str, exporter: Exporter, ports: list[int]
) -> None:
    exporter.write("backends:\n" + listed("gpu-a", ports[0]))
    exporter.start()
    assert eventually(lambda: exporter.reads("gpu-a") >= 2)
    before = exporter.samples()
    exporter.write("backends: [{name: gpu-b, url: 'ftp://h'}]")
    sentence = f"{exporter.file}: backends[0].url: 'ftp://h' is not an http(s) URL"
    assert exporter.reload(method) == (500, f"{sentence}\n")
    assert f"event=reload_failed why={json.dumps(sentence)}" in exporter.log()
    after = exporter.samples()
    assert after[SUCCESSFUL,] == 0
    assert after[TIMESTAMP,] == before[TIMESTAMP,]
    assert eventually(lambda: exporter.reads("gpu-a") > after[READS, "gpu-a", "ok"])
    assert exporter.watched() == {"gpu-a"}
    exporter.file.unlink()
    assert exporter.reload(method)[0] == 500
    exporter.write("backends:\n" + listed("gpu-a", ports[0]))
    assert exporter.reload(method) == (200, "")
    good = exporter.samples()
    assert good[SUCCESSFUL,] == 1
    assert good[TIMESTAMP,] > before[TIMESTAMP,]
    assert good[QUIET, "gpu-a", "0"] > before[QUIET, "gpu-a", "0"]


def test_another_interval_holds_without_a_loss(exporter: Exporter, ports: list[int]) -> None:
    exporter.write("backends:\n" + listed("gpu-a", ports[0]))
    exporter.start()
    assert eventually(lambda: exporter.reads("gpu-a") >= 4)
    before = exporter.samples()
    exporter.file.write_text(
        exporter.file.read_text().replace("interval: 200ms", "interval: 300ms")
    )
    assert exporter.reload() == (200, "")
    reads = before[READS, "gpu-a", "ok"]
    scrapes = exporter.until(lambda now: now[READS, "gpu-a", "ok"] > reads + 2)
    assert never_falls([before, *scrapes], READS, "gpu-a", "ok")
    assert never_falls([before, *scrapes], QUIET, "gpu-a", "0")
    assert requests.get(f"{exporter.url}/-/healthy", timeout=60).ok


FILES = "discovery: [{name: files, files: ['t*.json'], refresh: 100ms}]\n"


def test_a_file_of_targets_is_followed_without_a_word(exporter: Exporter, ports: list[int]) -> None:
    first, second = (f"127.0.0.1_{port}" for port in ports)
    exporter.write(FILES)
    exporter.targets(f"127.0.0.1:{ports[0]}")
    exporter.start()
    assert exporter.watched() == {first}
    exporter.targets(*(f"127.0.0.1:{port}" for port in ports))
    assert eventually(lambda: exporter.reads(second) >= 1)
    before = exporter.samples()
    assert before[DISCOVERED, "files"] == 2
    assert requests.get(f"{exporter.url}/-/ready", timeout=60).ok
    exporter.write_targets('[{"targets": ["127.')
    assert eventually(lambda: (exporter.value(FAILURES, "files") or 0) >= 2)
    assert eventually(lambda: exporter.reads(first) > before[READS, first, "ok"])
    assert exporter.watched() == {first, second}
    exporter.targets(f"127.0.0.1:{ports[1]}")
    assert eventually(lambda: exporter.watched() == {second})
    after = exporter.samples()
    assert exporter.on_the_page() == {second}
    assert after[QUIET, second, "0"] > before[QUIET, second, "0"]
    assert (after[DISCOVERED, "files"], after["vllm_exporter_backends",]) == (1, 1)
    assert exporter.log().count("event=discovery_failed source=files") == 1
    assert "event=discovery_recovered source=files" in exporter.log()
    (exporter.folder / "targets.json").unlink()
    assert eventually(lambda: exporter.watched() == set())


def test_a_reload_reads_the_files_of_targets_at_once_and_says_what_is_wrong(
    exporter: Exporter, ports: list[int]
) -> None:
    slow = FILES.replace("100ms", "1h")
    exporter.write(slow)
    exporter.targets(f"127.0.0.1:{ports[0]}")
    exporter.start()
    exporter.targets(f"127.0.0.1:{ports[1]}")
    assert exporter.reload() == (200, "")
    assert eventually(lambda: exporter.watched() == {f"127.0.0.1_{ports[1]}"})
    exporter.targets("http://h")
    file = exporter.folder / "targets.json"
    sentence = f"files: {file}: [0].targets[0]: 'http://h' is not host:port"
    exporter.write(slow + "backends:\n" + listed("gpu-a", ports[0]))
    assert exporter.reload() == (500, f"{sentence}\n")
    assert json.dumps(sentence) in exporter.log()
    # fleet.yml itself is good: it is in force.
    assert eventually(lambda: exporter.watched() == {"gpu-a", f"127.0.0.1_{ports[1]}"})
    assert exporter.value(SUCCESSFUL) == 1


def test_a_listed_backend_goes_before_a_found_one(exporter: Exporter, ports: list[int]) -> None:
    exporter.write(FILES + "backends:\n" + listed("gpu-a", ports[0]))
    exporter.targets(*(f"127.0.0.1:{port}" for port in ports))
    exporter.start()
    assert exporter.watched() == {"gpu-a", f"127.0.0.1_{ports[1]}"}
    assert exporter.value(DISCOVERED, "files") == 1
    assert exporter.reload() == (200, "")
    assert exporter.log().count("event=backend_left_out") == 1


def dns_source(server: DnsServer, *, name: str = "dns", names: str = "_vllm.test") -> str:
    return (
        f"discovery: [{{name: {name}, refresh: 100ms, "
        f"dns: {{names: [{names}], resolver: '{server.address}'}}}}]\n"
    )


def test_srv_records_are_followed_and_a_resolver_that_fails_changes_nothing(
    exporter: Exporter, ports: list[int]
) -> None:
    first, second = (f"localhost_{port}" for port in ports)
    with DnsServer() as server:
        server.says("_vllm.test", "SRV", f"0 0 {ports[0]} localhost.")
        exporter.write(dns_source(server))
        exporter.start()
        assert exporter.watched() == {first}
        server.rcode = dns.rcode.SERVFAIL
        assert eventually(lambda: (exporter.value(FAILURES, "dns") or 0) >= 1)
        before = exporter.samples()
        # Even a source of another name, with one more name to look up, keeps what was answered.
        exporter.write(dns_source(server, name="renamed", names="_vllm.test, other.test"))
        status, said = exporter.reload()
        assert status == 500
        assert said.startswith("renamed: _vllm.test: cannot be resolved: ")
        after = exporter.samples()
        assert after[READS, first, "ok"] >= before[READS, first, "ok"] > 0
        assert after[DISCOVERED, "renamed"] == 1
        assert (DISCOVERED, "dns") not in after
        server.rcode = None
        server.says("_vllm.test", "SRV", f"0 0 {ports[1]} localhost.")
        assert eventually(lambda: exporter.watched() == {second})
        server.says("_vllm.test", "SRV")
        assert eventually(lambda: exporter.watched() == set())


def test_ready_waits_for_the_first_look(exporter: Exporter, ports: list[int]) -> None:
    with DnsServer() as server:
        server.silent = True
        server.says("_vllm.test", "SRV", f"0 0 {ports[0]} localhost.")
        exporter.write(dns_source(server))
        starting = threading.Thread(target=exporter.start)
        starting.start()
        assert eventually(lambda: bool(server.asked), within=30)
        answer = requests.get(f"{exporter.url}/-/ready", timeout=60)
        assert (answer.status_code, answer.text) == (503, "not looked up yet: dns\n")
        server.silent = False
        starting.join(60)
    assert exporter.watched() == {f"localhost_{ports[0]}"}


def test_ready_is_also_who_finds_nobody(exporter: Exporter) -> None:
    exporter.write(FILES + "backends: []")
    exporter.start()
    assert exporter.watched() == set()


def test_one_reload_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_text("backends: [{name: a, url: 'http://127.0.0.1:9'}]")
    watch = Watch(load(tmp_path / "fleet.yml"), Memory())
    ended: list[tuple[str, ...]] = []
    asking = threading.Thread(target=lambda: ended.append(watch.reload(timeout=30)))
    asking.start()
    assert eventually(watch._reloading.locked)
    with pytest.raises(ReloadBusyError, match="another reload is under way: ask again"):
        watch.reload()
    running = threading.Thread(target=watch.run)
    running.start()
    asking.join(30)
    assert ended == [()]
    watch.end()
    running.join(30)
    with pytest.raises(ReloadBusyError, match="the reload is not over after"):
        watch.reload(timeout=0.01)
    watch.close()


def test_the_check_reads_the_files_of_targets_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from exporter.__main__ import main  # noqa: PLC0415 -- the program's own logging

    file = tmp_path / "fleet.yml"
    file.write_text(FILES)
    assert main(["--config.file", str(file), "--config.check"]) == 0
    assert capsys.readouterr().out == f"{file}: 0 backends and 1 source of others, valid\n"
    (tmp_path / "t.json").write_text("[{}, {}]")
    os.truncate(tmp_path / "t.json", 4)
    assert main(["--config.file", str(file), "--config.check"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{file}: files: {tmp_path}/t.json:1:5: is not valid JSON: ")
