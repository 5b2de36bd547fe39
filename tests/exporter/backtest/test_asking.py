"""How a Prometheus is asked, shown by servers that are none."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from exporter.backtest.__main__ import main
from fleet.fetch import MAX_BYTES
from tests.fleet.listeners import Listener, Request, closed_port, reply, serving

UNTIL = 1_760_000_000
RUNNING = {
    "__name__": "vllm:num_requests_running",
    "engine": "0",
    "instance": "a:1",
    "job": "vllm",
}
SERIES = json.dumps({"status": "success", "data": [RUNNING]})
TWO_LOOKS = [[UNTIL - 30, "1"], [UNTIL - 15, "0"]]


def matrix(request: Request, *, warnings: list[str] | None = None) -> bytes:
    """One series, in whichever piece is asked for."""
    query = parse_qs(urlsplit(request.path).query)
    last = query["time"] == [str(UNTIL)]
    result = [{"metric": RUNNING, "values": TWO_LOOKS}] if last else []
    data = {"resultType": "matrix", "result": result}
    return reply(json.dumps({"status": "success", "data": data, "warnings": warnings or []}))


def backtest(url: str, *flags: str) -> int:
    return main(["--prometheus", url, "--since", "1d", "--until", str(UNTIL), "--json", *flags])


def answered(answer: Callable[[Request], bytes], *flags: str) -> int:
    """The exit status with a server that answers so for samples."""

    def handler(request: Request) -> bytes:
        return reply(SERIES) if "/series" in request.path else answer(request)

    with Listener(serving(handler)) as server:
        return backtest(server.url, *flags)


def test_the_token_is_sent_and_never_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    file.write_text("very-secret\n")
    seen = set()

    def answer(request: Request) -> bytes:
        seen.add(request.headers.get("authorization"))
        return matrix(request)

    assert answered(answer, "--bearer-token-file", str(file)) == 0
    assert seen == {"Bearer very-secret"}
    assert "very-secret" not in "".join(capsys.readouterr())


def test_a_token_that_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "token"
    assert backtest("http://127.0.0.1:9", "--bearer-token-file", str(file)) == 2
    why = "cannot be read: No such file or directory"
    assert capsys.readouterr().err == f"--bearer-token-file: {file}: {why}\n"


def test_nobody_listens_there(capsys: pytest.CaptureFixture[str]) -> None:
    with closed_port() as port:
        url = f"http://127.0.0.1:{port}"
        assert backtest(url) == 2
    assert capsys.readouterr().err == f"{url}: the connection was refused\n"


@pytest.mark.parametrize(
    ("refusal", "sentence"),
    [
        (reply(status="500 Internal Server Error"), "/api/v1/query answered HTTP 500"),
        (
            reply(status="302 Found", Location="https://login.test/?next=a"),
            "/api/v1/query answered HTTP 302: a redirect to login.test, which is not followed",
        ),
        (reply("<html>"), "its answer is not one of Prometheus' API"),
        (reply('{"data": {"result": [{}]}}'), "its answer is not one of Prometheus' API"),
    ],
    ids=["an error", "a login page's redirect", "a page", "another API"],
)
def test_an_answer_that_is_none_ends_it(
    refusal: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answered(lambda _: refusal) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith(f": {sentence}\n")


@pytest.mark.parametrize(
    "too_much",
    [
        reply(status="422 Unprocessable Entity"),
        reply(status="503 Service Unavailable"),
        reply(b" " * (MAX_BYTES + 1)),
    ],
    ids=["too many samples", "too long a query", "more than one answer may hold"],
)
def test_what_is_too_much_is_asked_for_in_shorter_pieces(
    too_much: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces = []

    def answer(request: Request) -> bytes:
        query = parse_qs(urlsplit(request.path).query)
        seconds = int(query["query"][0].rpartition("[")[2].removesuffix("s]"))
        if seconds > 2 * 3600:
            return too_much
        pieces.append((int(query["time"][0]) - seconds, int(query["time"][0])))
        return matrix(request)

    assert answered(answer) == 0
    assert capsys.readouterr().err == ""
    # Without a gap from the beginning to the end.
    assert [start for start, _ in pieces] == [UNTIL - 86400, *(end for _, end in pieces[:-1])]
    assert pieces[-1][1] == UNTIL


def test_targets_of_one_name_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    series = [{**RUNNING, "replica": replica} for replica in ("a", "b")]

    def handler(request: Request) -> bytes:
        if "/series" in request.path:
            return reply(json.dumps({"data": series}))
        result = [{"metric": one, "values": TWO_LOOKS} for one in series]
        return reply(json.dumps({"data": {"result": result}}))

    with Listener(serving(handler)) as server:
        argv = ["--prometheus", server.url, "--since", "1h", "--until", str(UNTIL)]
        assert main(argv) == 0
    names = [f'{{instance="a:1",job="vllm",replica="{replica}"}}' for replica in ("a", "b")]
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said[1:3]] == names


def test_what_the_prometheus_warns_of_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert answered(lambda request: matrix(request, warnings=["a store is away"])) == 0
    limits = json.loads(capsys.readouterr().out)["limits"]
    assert limits[-1] == "Prometheus warned: a store is away"
