"""Each case of how streams really end has its test, or a word where it is shown."""

from pathlib import Path

import pytest
import yaml

HERE = Path(__file__).parent
CASES = yaml.safe_load((HERE.parent / "fixtures" / "cases" / "streams.yml").read_text())

SHOWN_BY = {
    "finished": ("test_ends.py", "test_finish_usage_and_done_is_complete"),
    "error-then-done": ("test_ends.py", "test_an_error_and_its_done_are_not_given_out"),
    "abort-with-usage": ("test_ends.py", "test_abort_with_text_usage_and_done_is_an_interruption"),
    "eof-without-anything": ("test_ends.py", "test_the_end_of_the_file_is_an_interruption"),
    "finish-reason-then-silence": ("test_ends.py", "test_silence_after_a_finish_is_complete"),
    "keep-alive-comments": ("test_ends.py", "test_comments_are_passed_on_and_are_no_progress"),
    "split-frames": ("test_going_on.py", "test_a_stream_in_pieces_gives_what_it_gives_whole"),
    "not-resumable": ("test_ends.py", "test_what_cannot_go_on_is_told_so_and_not_spliced"),
    "usage-twice": ("test_ends.py", "test_the_last_usage_counts_and_never_the_sum"),
    "resumed-usage": ("test_ends.py", "test_the_prompt_is_charged_once_and_as_it_was_at_first"),
}
ELSEWHERE = {
    "refused-while-draining": "an answer without a stream; the relay tries another backend",
    "client-gone": "the relay hangs up; what was billed until then is test_going_on.py's",
    "same-id-again": "the ledger admits requests",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_case_has_its_test(case: dict[str, str]) -> None:
    if case["id"] in ELSEWHERE:
        assert case["id"] not in SHOWN_BY
        return
    file, name = SHOWN_BY[case["id"]]
    assert f"def {name}(" in (HERE / file).read_text()
