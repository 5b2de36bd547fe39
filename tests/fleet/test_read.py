"""Which form of the page is read, over real sockets; what was asked for is counted there."""

from collections.abc import Callable

import pytest

from fleet.fetch import Failure, Fetcher, Trouble
from fleet.read import FILTERED, Form, Reader
from fleet.reading import NAMES, Reading
from tests.fleet.listeners import Vllm
from tests.fleet.pages import BUSY, page
from tests.fleet.watching import RECORDINGS

FULL = (RECORDINGS / "busy-decode" / "00.prom").read_text()
LATER = (RECORDINGS / "busy-decode" / "01.prom").read_text()


def wanted(text: str) -> str:
    """What vLLM's own filter leaves of a page: the lines of these names."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return "".join(f"{line}\n" for line in lines if line.partition("{")[0].split()[0] in NAMES)


@pytest.fixture
def vllm() -> Vllm:
    return Vllm(page=FULL, filtered=wanted)


def form(reader: Reader) -> Form:
    """Asked by a function, since a type checker takes an attribute to stay as it was."""
    return reader.form


@pytest.fixture
def reader(fetcher: Fetcher) -> Reader:
    return Reader(fetcher)


def read(reader: Reader, times: int = 1) -> Reading | Failure:
    for _ in range(times):
        result = reader.read(timeout=5.0)
    return result


def test_the_full_page_is_read_once_and_the_filtered_one_from_then_on(
    vllm: Vllm, reader: Reader
) -> None:
    assert read(reader) == Reading.from_page(FULL)
    vllm.page = LATER
    assert read(reader, 9) == Reading.from_page(LATER)
    assert form(reader) is Form.FILTERED
    assert vllm.paths() == {"/metrics": 1, "/metrics/": 10}


def test_every_name_is_asked_for_with_the_slash_without_which_vllm_ignores_them(
    vllm: Vllm, reader: Reader
) -> None:
    read(reader, 2)
    assert vllm.requests[-1].path == FILTERED
    assert FILTERED.startswith("/metrics/?name%5B%5D=")
    assert all(f"name%5B%5D={name}" in FILTERED for name in NAMES)


USELESS: dict[str, Callable[[str], str] | None] = {
    "empty, as in multiprocess mode": lambda _: "",
    "the filter ignored": lambda text: text,
    "no start time": lambda text: wanted(text).replace("process_start_time_seconds", "x"),
    "an engine lacks its KV usage": lambda text: wanted(text).replace("vllm:kv_cache", "x"),
    "a page of something else": lambda _: "<html></html>",
    "there is none": None,
}


@pytest.mark.parametrize("filtered", USELESS.values(), ids=USELESS)
def test_a_server_without_a_useful_filter_is_read_in_full(
    filtered: Callable[[str], str] | None, vllm: Vllm, reader: Reader
) -> None:
    vllm.filtered = filtered
    assert read(reader, 5) == Reading.from_page(FULL)
    assert form(reader) is Form.FULL
    assert vllm.paths() == {"/metrics": 5, "/metrics/": 1}


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 No", "404 No", "414 Long", "500 Oops"])
def test_a_refused_filter_costs_no_reading(status: str, vllm: Vllm, reader: Reader) -> None:
    read(reader)
    vllm.filtered_status = status
    assert read(reader, 3) == Reading.from_page(FULL)
    assert form(reader) is Form.FULL


def test_a_filtered_page_that_comes_to_lack_something_is_read_in_full_at_once(
    vllm: Vllm, reader: Reader
) -> None:
    read(reader, 2)
    vllm.filtered = lambda _: ""
    assert read(reader) == Reading.from_page(FULL)
    assert form(reader) is Form.FULL


def test_what_the_full_page_has_lost_too_is_no_reason_to_read_it_in_full(
    vllm: Vllm, reader: Reader
) -> None:
    read(reader, 2)
    vllm.page = FULL.replace("vllm:kv_cache_usage_perc", "x")
    assert read(reader, 3) == Reading.from_page(vllm.page)
    assert form(reader) is Form.FILTERED


def test_a_new_process_is_asked_anew(vllm: Vllm, reader: Reader) -> None:
    vllm.filtered = lambda _: ""
    read(reader, 2)
    vllm.filtered = wanted
    assert read(reader, 2) == Reading.from_page(FULL)
    assert form(reader) is Form.FULL
    reader.forget()
    read(reader, 2)
    assert form(reader) is Form.FILTERED


def test_a_failure_says_nothing_about_the_filter(vllm: Vllm, reader: Reader) -> None:
    read(reader, 2)
    assert form(reader) is Form.FILTERED
    vllm.filtered = None
    vllm.metrics = "500 Oops"
    assert isinstance(read(reader), Failure)
    vllm.filtered, vllm.metrics = wanted, "200 OK"
    read(reader)
    assert form(reader) is Form.FILTERED


def test_a_page_without_engines_is_not_asked_for_twice(vllm: Vllm, reader: Reader) -> None:
    vllm.page = "x 1\n"
    assert read(reader, 3) == Reading()
    assert vllm.paths() == {"/metrics": 3}


def test_both_requests_share_one_deadline(vllm: Vllm, reader: Reader) -> None:
    now = [0.0]

    def slow(text: str) -> str:
        now[0] += 5.0
        return wanted(text).replace("process_start_time_seconds", "x")

    reader._monotonic = lambda: now[0]
    read(reader, 2)
    assert form(reader) is Form.FILTERED
    vllm.filtered = slow
    failure = read(reader)
    assert isinstance(failure, Failure)
    assert failure.kind is Trouble.TIMEOUT
    assert failure.why == "/metrics did not answer in full within 5 s"


def test_a_ray_page_is_read_in_full(vllm: Vllm, reader: Reader) -> None:
    vllm.page = page({"0": BUSY}, 1000.0).replace("vllm:", "ray_vllm_")
    assert read(reader, 2) == Reading.from_page(vllm.page)
    assert form(reader) is Form.FULL
