"""What this project deploys: doctor finds nothing, and nginx does what its file says."""

import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from demo.child import free_ports
from demo.parts import nginx
from fleet.gather import gather
from gateway.doctor.__main__ import KNOWN
from gateway.doctor.rule import Rule
from gateway.doctor.source import findings

ROOT = Path(__file__).parents[3]
CONF = ROOT / "deploy" / "nginx" / "gateway.conf"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
START_SECONDS = 20.0


def test_doctor_finds_nothing_in_what_is_deployed() -> None:
    ours = [str(ROOT / "deploy"), str(ROOT / "docker-compose.yml")]
    gathered = gather(ours, KNOWN)
    assert gathered.problems == []
    assert {"gateway.yaml", "gateway.conf"} <= {Path(each.file).name for each in gathered.sources}
    assert findings(gathered.sources) == ()


@pytest.mark.parametrize(
    ("name", "right", "wrong", "rule"),
    [
        ("kubernetes/gateway.yaml", "GracePeriodSeconds: 75", "GracePeriodSeconds: 64",
         Rule.GRACE_GATEWAY),
        ("kubernetes/gateway.yaml", "path: /-/healthy", "path: /-/ready", Rule.LIVENESS_READY),
        ("kubernetes/gateway.yaml", "maxUnavailable: 1", "maxUnavailable: 0", Rule.PDB_BLOCKS),
        ("nginx/gateway.conf", "error timeout;", "error timeout non_idempotent;", Rule.RETRY_POST),
        ("nginx/gateway.conf", "timeout 10m", "timeout 10s", Rule.PROXY_SHUTDOWN),
    ],
)  # fmt: skip
def test_doctor_would_see_it(tmp_path: Path, name: str, right: str, wrong: str, rule: Rule) -> None:
    text = (ROOT / "deploy" / name).read_text()
    assert right in text
    copy = tmp_path / Path(name).name
    copy.write_text(text.replace(right, wrong))
    found = findings(gather([str(copy)], KNOWN).sources)
    assert {str(each.rule) for each in found} == {rule}


def written(folder: Path, port: int, gateways: dict[str, int]) -> Path:
    """The file with other ports, and with its temporary files in a folder."""
    text = CONF.read_text().replace("listen 80;", f"listen 127.0.0.1:{port};")
    for address, at in gateways.items():
        text = text.replace(f"{address}:8080", f"127.0.0.1:{at}")
    temporary = "".join(f"{each}_temp_path {folder}/{each};\n" for each in TEMPORARY)
    text = text.replace("http {\n", f"http {{\naccess_log off;\n{temporary}", 1)
    path = folder / "nginx.conf"
    path.write_text(f"pid {folder}/nginx.pid;\ndaemon off;\nerror_log stderr;\n{text}")
    return path


def command(folder: Path, path: Path) -> list[str]:
    return [nginx(), "-e", "stderr", "-p", str(folder), "-c", str(path)]


def test_nginx_takes_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, free_ports(1)[0], {})
    told = subprocess.run(
        [*command(tmp_path, path), "-t"], capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0, told.stderr
    assert "warn" not in told.stderr


class Gateway(BaseHTTPRequestHandler):
    """Answers with what it was sent, or refuses as a gateway does that drains."""

    protocol_version = "HTTP/1.1"
    drains = False

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(503 if self.drains else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Draining(Gateway):
    drains = True


@contextmanager
def serving(handler: type[Gateway]) -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@contextmanager
def proxied(folder: Path, gateways: dict[str, int]) -> Iterator[str]:
    port = free_ports(1)[0]
    path = written(folder, port, gateways)
    with subprocess.Popen(command(folder, path), stderr=subprocess.DEVNULL) as started:
        url = f"http://127.0.0.1:{port}"
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                urlopen(f"{url}/metrics", timeout=5).close()
            except HTTPError as error:
                error.close()
                break
            except URLError:
                assert time.monotonic() < end, "nginx does not listen"
                time.sleep(0.05)
        yield url
        started.terminate()
        started.wait(20)


def ask(url: str) -> int:
    body = json.dumps({"model": "m", "prompt": "x" * 2000}).encode()
    try:
        with urlopen(Request(f"{url}/v1/completions", data=body), timeout=30) as answer:
            return answer.status if answer.read() == body else 0
    except HTTPError as error:
        error.close()
        return error.code


@pytest.mark.parametrize("first", [True, False], ids=["the first drains", "the second drains"])
def test_what_a_draining_gateway_refuses_is_taken_by_the_other(
    tmp_path: Path, *, first: bool
) -> None:
    with ExitStack() as stack:
        draining = stack.enter_context(serving(Draining))
        healthy = stack.enter_context(serving(Gateway))
        ports = (draining, healthy) if first else (healthy, draining)
        gateways = dict(zip(("10.0.0.11", "10.0.0.12"), ports, strict=True))
        url = stack.enter_context(proxied(tmp_path, gateways))
        with ThreadPoolExecutor(8) as asking:
            statuses = Counter(asking.map(ask, [url] * 100))
    assert statuses == {200: 100}


def test_a_gateway_that_is_gone_costs_no_request(tmp_path: Path) -> None:
    with ExitStack() as stack:
        healthy = stack.enter_context(serving(Gateway))
        gateways = {"10.0.0.11": free_ports(1)[0], "10.0.0.12": healthy}
        url = stack.enter_context(proxied(tmp_path, gateways))
        assert Counter(ask(url) for _ in range(30)) == {200: 30}


def test_a_post_that_broke_amid_its_way_is_not_sent_again(tmp_path: Path) -> None:
    asked: list[str] = []

    class Breaking(Gateway):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.close_connection = True

    with ExitStack() as stack:
        ports = [stack.enter_context(serving(Breaking)) for _ in range(2)]
        gateways = dict(zip(("10.0.0.11", "10.0.0.12"), ports, strict=True))
        url = stack.enter_context(proxied(tmp_path, gateways))
        assert ask(url) == 502
    assert asked == ["/v1/completions"]


def test_the_pages_for_operators_are_not_for_everybody(tmp_path: Path) -> None:
    with serving(Gateway) as port, proxied(tmp_path, {"10.0.0.11": port}) as url:
        for page in ("/metrics", "/admin/backends/a/drain"):
            with pytest.raises(HTTPError) as refused:
                urlopen(Request(url + page, data=b"{}"), timeout=10)
            assert refused.value.code == 404
            refused.value.close()
