"""What this project deploys: doctor finds nothing, and nginx does what its file says."""

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from demo.child import free_ports
from fleet.gather import gather
from gateway.doctor.__main__ import KNOWN
from gateway.doctor.rule import Rule
from gateway.doctor.source import findings
from tests.gateway.nginx import command, proxied, written

ROOT = Path(__file__).parents[3]


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
        ("nginx/gateway.conf", "proxy_set_header X-Request-Id $named;", "", Rule.RETRY_POST),
        ("nginx/gateway.conf", "max_fails=0", "max_fails=1", Rule.MAX_FAILS),
        ("nginx/gateway.conf", "keepalive_timeout 60s", "keepalive_timeout 1h", Rule.IDLE_REUSE),
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


class Server(ThreadingHTTPServer):
    """Lets as many wait as come, on a loaded machine, too."""

    request_queue_size = 128


@contextmanager
def serving(handler: type[Gateway]) -> Iterator[int]:
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(url: str, named: str = "") -> int:
    body = json.dumps({"model": "m", "prompt": "x" * 2000}).encode()
    try:
        headers = {"x-request-id": named} if named else {}
        request = Request(f"{url}/v1/completions", data=body, headers=headers)
        with urlopen(request, timeout=30) as answer:
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


class Breaking(Gateway):
    """Breaks off whatever it is asked, and keeps the ids."""

    ids: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.ids.append(self.headers["x-request-id"])
        self.close_connection = True


@pytest.fixture
def broken_off() -> Iterator[list[str]]:
    yield Breaking.ids
    Breaking.ids.clear()


@pytest.mark.parametrize("named", ["", "mine"])
def test_a_post_that_broke_off_is_sent_to_each_gateway_once_and_under_one_id(
    tmp_path: Path, broken_off: list[str], named: str
) -> None:
    with ExitStack() as stack:
        ports = [stack.enter_context(serving(Breaking)) for _ in range(2)]
        gateways = dict(zip(("10.0.0.11", "10.0.0.12"), ports, strict=True))
        url = stack.enter_context(proxied(tmp_path, gateways))
        assert ask(url, named) == 502
        first, again = broken_off
        assert first == again != ""
        assert named in ("", first)
        assert ask(url, named) == 502
        assert (broken_off[-1] == first) == bool(named)


def test_a_gateway_that_breaks_off_before_it_answers_costs_no_request(tmp_path: Path) -> None:
    with ExitStack() as stack:
        ports = [stack.enter_context(serving(one)) for one in (Breaking, Gateway)]
        gateways = dict(zip(("10.0.0.11", "10.0.0.12"), ports, strict=True))
        url = stack.enter_context(proxied(tmp_path, gateways))
        assert Counter(ask(url) for _ in range(30)) == {200: 30}


def test_where_all_refuse_the_last_one_says_so_and_it_is_asked_again_at_once(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        ports = [stack.enter_context(serving(Draining)) for _ in range(2)]
        gateways = dict(zip(("10.0.0.11", "10.0.0.12"), ports, strict=True))
        url = stack.enter_context(proxied(tmp_path, gateways))
        assert [ask(url) for _ in range(5)] == [503] * 5


def test_the_pages_for_operators_are_not_for_everybody(tmp_path: Path) -> None:
    with serving(Gateway) as port, proxied(tmp_path, {"10.0.0.11": port}) as url:
        for page in ("/metrics", "/admin/backends/a/drain"):
            with pytest.raises(HTTPError) as refused:
                urlopen(Request(url + page, data=b"{}"), timeout=10)
            assert refused.value.code == 404
            refused.value.close()
