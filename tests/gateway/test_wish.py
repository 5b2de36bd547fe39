from collections.abc import Mapping

import pytest

from gateway.seal import NotGood, Why
from gateway.wish import Last, Wish, followed, wish

LAST = Last("req-1.2", 7)


@pytest.mark.parametrize(
    ("headers", "body", "wanted"),
    [
        pytest.param({}, b'{"model": "m"}', None, id="a request of its own"),
        pytest.param({"x-resume-token": "r1.x"}, b"", Wish("r1.x", None), id="a token"),
        pytest.param({"last-event-id": "req-1.2.7"}, b"{}", Wish(None, LAST), id="an event"),
        pytest.param(
            {"last-event-id": " req-1.2.7 ", "x-resume-token": " r1.x "},
            b"",
            Wish("r1.x", LAST),
            id="both",
        ),
        pytest.param({}, b'{"resume_token": "r1.x"}', Wish("r1.x", None), id="a token in the body"),
        pytest.param(
            {"x-resume-token": "r1.y"},
            b'{"resume_token": "r1.x"}',
            Wish("r1.y", None),
            id="a header counts more",
        ),
        pytest.param({}, b'{"resume_token": null}', None, id="no token in the body"),
        pytest.param({}, b'{"messages": [{"resume_token": "x"}]}', None, id="deeper in the body"),
        pytest.param({}, b'"resume_token"', None, id="no object"),
        pytest.param({}, b'{"resume_token"', None, id="no JSON"),
        pytest.param({"x-resume-token": " "}, b"", None, id="an empty token"),
        pytest.param({"last-event-id": ""}, b"", None, id="an empty id"),
    ],
)
def test_what_a_client_wants_to_go_on_with(
    headers: Mapping[str, str], body: bytes, wanted: Wish | None
) -> None:
    assert wish(headers, body) == wanted


@pytest.mark.parametrize(
    "said", ["7", "req-1", ".7", "req-1.", "req 1.7", "req-1.x", "r.-1", "é.1"]
)
def test_an_id_that_is_none_of_ours_is_not_good(said: str) -> None:
    assert wish({"last-event-id": said, "x-resume-token": "r1.x"}, b"") == NotGood(Why.MALFORMED)
    assert followed(said, "req-1") == NotGood(Why.MALFORMED)


def test_a_stream_is_followed_from_its_beginning_or_after_an_event_of_its_own() -> None:
    assert followed("", "req-1.2") == Last("req-1.2", 0)
    assert followed("req-1.2.7", "req-1.2") == LAST
    assert followed("req-2.7", "req-1.2") == NotGood(Why.MALFORMED)
