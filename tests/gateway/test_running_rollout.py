"""A roll-out in small: every server restarted, and every gateway."""

from pathlib import Path

import pytest

from benchmarks.rollout.ways import Size, nginx, ours


@pytest.mark.timeout(180)
def test_a_small_roll_out_through_our_gateways_is_not_noticed(tmp_path: Path) -> None:
    found = ours(tmp_path, Size(streams=4, scale=0.04))
    assert found.requests > 8
    assert found.whys == {}
    assert (found.cut, found.refused_pct, found.text_errors) == (0, 0.0, 0)
    assert (found.unbilled_pct, found.overbilled_pct, found.double_prompts) == (0.0, 0.0, 0)


@pytest.mark.timeout(180)
def test_a_small_roll_out_behind_nginx_is(tmp_path: Path) -> None:
    found = nginx(tmp_path, Size(streams=4, scale=0.04))
    assert found.cut > 0
    assert found.unbilled_pct > 0
    assert found.text_errors == 0
