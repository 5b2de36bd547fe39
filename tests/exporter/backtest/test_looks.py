"""From raw samples to looks: the same readings that the exporter would have had."""

import json
import math
from pathlib import Path

import pytest

from exporter.backtest.looks import FAILED, Series, looks, scrape_interval
from exporter.backtest.target import Target
from fleet.history import Look
from fleet.reading import Reading
from tests.exporter.backtest.kept import labels, lines

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"
OWN = {"instance": "a:1", "job": "vllm"}
TARGET = Target.of(OWN)
RUNNING = {"__name__": "vllm:num_requests_running", "engine": "0", **OWN}
UP = {"__name__": "up", **OWN}


@pytest.mark.parametrize("recording", sorted(RECORDINGS.iterdir()), ids=lambda path: path.name)
def test_a_page_of_a_real_server_reads_the_same_from_prometheus(recording: Path) -> None:
    for file in sorted(recording.glob("*.prom")):
        text = file.read_text()
        kept = [
            Series(labels(series), [(5.0, float(value))])
            for series, value in lines(text, 'instance="a:1",job="vllm"')
        ]
        assert looks(kept, TARGET, after=0) == [Look(5.0, 5.0, Reading.from_page(text))]


def test_the_recordings_are_there() -> None:
    assert len(list(RECORDINGS.iterdir())) > 10
    assert json.loads((RECORDINGS / "idle" / "manifest.json").read_text())


def running(at: float, value: float) -> Series:
    return Series(RUNNING, [(at, value)])


def test_samples_of_one_timestamp_are_one_look() -> None:
    waiting = {**RUNNING, "__name__": "vllm:num_requests_waiting"}
    kept = [Series(RUNNING, [(1.0, 2.0), (2.0, 3.0)]), Series(waiting, [(2.0, 4.0)])]
    first, second = (look.result for look in looks(kept, TARGET, after=0))
    assert isinstance(first, Reading)
    assert isinstance(second, Reading)
    assert (first.engines["0"].running, first.engines["0"].waiting) == (2.0, None)
    assert (second.engines["0"].running, second.engines["0"].waiting) == (3.0, 4.0)


def test_what_was_already_seen_is_not_seen_again() -> None:
    """Prometheus 2 gives the sample at the very beginning of a range, Prometheus 3 does not."""
    kept = [
        Series(RUNNING, [(1.0, 2.0), (2.0, 2.0)]),
        Series(UP, [(0.5, 0.0), (1.0, 1.0), (2.0, 1.0)]),
    ]
    assert [look.ended for look in looks(kept, TARGET, after=1.0)] == [2.0]


def test_a_failed_scrape_is_a_failed_look() -> None:
    kept = [running(1.0, 2.0), Series(UP, [(1.0, 1.0), (2.0, 0.0)])]
    assert looks(kept, TARGET, after=0)[1] == Look(2.0, 2.0, FAILED)


def test_a_scrape_without_a_sample_of_interest_is_no_look() -> None:
    assert looks([Series(UP, [(1.0, 1.0)])], TARGET, after=0) == []


@pytest.mark.parametrize(
    "other",
    [
        {**RUNNING, "pod": "b"},
        {**RUNNING, "__name__": "vllm:request_params_n_sum"},
        {**RUNNING, "__name__": "istio_agent_process_start_time_seconds"},
    ],
    ids=["another target's", "one that proves nothing", "the start of something else"],
)
def test_other_series_are_left_out(other: dict[str, str]) -> None:
    assert looks([Series(other, [(1.0, 2.0)])], TARGET, after=0) == []


@pytest.mark.parametrize(
    "name", ["vllm_num_requests_running", "ray_vllm_num_requests_running"], ids=["_", "ray_"]
)
def test_other_spellings_are_known(name: str) -> None:
    kept = [Series({**RUNNING, "__name__": name}, [(1.0, 2.0)])]
    assert looks(kept, TARGET, after=0) == looks([running(1.0, 2.0)], TARGET, after=0)


def test_a_value_that_is_no_number_is_unreadable() -> None:
    (look,) = looks([running(1.0, math.nan)], TARGET, after=0)
    assert isinstance(look.result, Reading)
    assert look.result.engines["0"].unreadable == {"running"}


@pytest.mark.parametrize(
    ("times", "interval"),
    [
        ([], None),
        ([1.0], None),
        ([0.0, 15.002, 30.0, 44.998], 15.0),
        ([0.0, 15.0, 30.0, 900.0, 915.0], 15.0),
        ([0.0, 0.5, 1.0], 0.5),
    ],
    ids=["no look", "one look", "jitter", "a gap", "less than a second"],
)
def test_the_interval_is_the_usual_distance(times: list[float], interval: float | None) -> None:
    assert scrape_interval(times) == interval
