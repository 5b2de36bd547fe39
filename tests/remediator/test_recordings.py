"""What was recorded from a real vLLM, seen as the remediator sees it."""

from pathlib import Path

import pytest

from fleet.reading import Reading
from remediator.proof import Health, Look, Sight, saw

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"


def looks(name: str) -> list[Look]:
    pages = sorted((RECORDINGS / name).glob("*.prom"))
    return [Look(Reading.from_page(page.read_text()), Health.OK) for page in pages]


@pytest.mark.parametrize(
    ("name", "engine", "first", "sight"),
    [
        ("frozen-while-running", "0", 1, Sight.STILL),
        ("frozen-while-idle", "0", 1, Sight.STILL),
        ("idle", "0", 0, Sight.STILL),
        ("busy-decode", "0", 0, Sight.MOVED),
        ("long-prefill", "0", 0, Sight.MOVED),
        ("queue-full", "0", 0, Sight.MOVED),
        ("multiprocess-busy", "0", 0, Sight.MOVED),
        ("multiprocess-idle", "0", 0, Sight.UNREADABLE),
        ("dp2-one-engine-frozen", "0", 1, Sight.STILL),
        ("dp2-one-engine-frozen", "1", 1, Sight.MOVED),
        ("dp2-one-engine-frozen", None, 1, Sight.MOVED),
        ("behind-least-conn-proxy", "0", 0, Sight.RESTARTED),
    ],
)
def test_recorded_pages(name: str, engine: str | None, first: int, sight: Sight) -> None:
    assert saw(looks(name)[first:], engine).sight is sight
