"""Each case of what Alertmanager really sends has its test."""

from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE.parent / "fixtures" / "cases" / "notifications.yml").read_text())

SHOWN_BY = {
    "mixed-group": (
        "test_notification.py",
        "test_each_alert_stands_for_itself_and_the_root_is_never_used",
    ),
    "ha-duplicate": (
        "test_worker.py",
        "test_the_same_notification_from_two_peers_and_fourteen_retries",
    ),
    "slow-webhook": (
        "test_webhook.py",
        "test_a_notification_is_stored_before_it_is_acknowledged",
    ),
    "retry-semantics": ("test_webhook.py", "test_what_cannot_be_stored_is_not_acknowledged"),
    "reverified-moved": (
        "test_worker.py",
        "test_nothing_is_restarted_that_moves_while_we_look",
    ),
    "cannot-look": ("test_worker.py", "test_what_cannot_be_read_is_held_and_a_person_is_told"),
    "silenced-meanwhile": ("test_worker.py", "test_silenced_while_we_looked"),
    "unknown-backend": ("test_worker.py", "test_a_label_that_names_no_backend_reaches_nobody"),
    "exporter-labels": ("test_notification.py", "test_no_other_label_stands_in_for_the_backend"),
    "someone-else": ("test_worker.py", "test_a_restart_by_somebody_else_starts_our_cool_down"),
    "storm": (
        "test_remedy.py",
        "test_four_of_six_at_once_are_a_storm_and_nothing_is_restarted",
    ),
    "came-back-stuck": (
        "test_remedy.py",
        "test_what_comes_back_stuck_is_left_alone_longer_each_time_and_then_to_a_person",
    ),
    "killed-anywhere": ("test_worker.py", "test_killed_in_an_attempt_and_started_again"),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_case_has_its_test(case: dict[str, str]) -> None:
    file, name = SHOWN_BY[case["id"]]
    assert f"def {name}(" in (HERE / file).read_text()
