"""How often the page of metrics is made anew."""

from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from gateway.metrics_page import RESERVE_SECONDS, SHARE, MetricsPage

TAKES = 0.01
OPEN = "application/openmetrics-text; version=1.0.0"


class Numbered(Collector):
    """Tells how often it was asked, which takes a while of its own clock."""

    def __init__(self) -> None:
        self.times = 0
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        self.times += 1
        self.now += TAKES
        yield GaugeMetricFamily("times", "", value=self.times)


@pytest.fixture
def numbered() -> Numbered:
    return Numbered()


@pytest.fixture
def page(numbered: Numbered) -> MetricsPage:
    registry = CollectorRegistry()
    registry.register(numbered)
    return MetricsPage(registry, numbered)


def test_it_is_made_anew_for_each_who_asks_now_and_then(
    page: MetricsPage, numbered: Numbered
) -> None:
    for number in range(1, 1000):
        assert b"times %d.0\n" % number in page.page("")[1]
        numbered.now += TAKES / SHARE


def test_a_flood_gets_the_last_one_and_costs_no_more_than_its_share(
    page: MetricsPage, numbered: Numbered
) -> None:
    asked = 0
    while numbered.now < 60.0:
        page.page("")
        asked += 1
        numbered.now += 0.0001
    most = (RESERVE_SECONDS + 60.0 * SHARE) / TAKES
    assert most / 2 < numbered.times <= most + 1
    assert asked > 10 * numbered.times
    numbered.now += TAKES / SHARE
    times = numbered.times
    page.page("")
    assert numbered.times == times + 1


def test_it_is_in_the_format_that_is_asked_for(page: MetricsPage) -> None:
    assert page.page("")[0].startswith("text/plain")
    content_type, text = page.page(OPEN)
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")
