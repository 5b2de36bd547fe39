"""What of a head is passed on, and what of an answer is passed back."""

import pytest

from fleet.backend import Backend, Kind
from gateway.heads import Head, addressed, passed_back

BACKEND = Backend("gpu-a", "http://10.0.0.1:8000/there", Kind.VLLM, wait=0.0, load_time=0.0)


def test_what_the_connection_header_names_goes_no_further_either_way() -> None:
    headers = {"connection": "X-Mine, keep-alive,close", "x-mine": "1", "x-all": "2"}
    sent = Head("GET", "/any", headers, "r").to(BACKEND, None, 0).decode().split("\r\n")
    assert sent[0] == "GET /there/any HTTP/1.1"
    assert "x-all: 2" in sent
    assert not [line for line in sent if line.startswith(("x-mine", "connection"))]
    assert list(passed_back(headers)) == [("x-all", "2")]


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("http://gpu-a:8000/v1/completions?x=1#y", "/v1/completions?x=1#y"),
        ("http://GPU-A/v1/completions", "/v1/completions"),
        ("https://gpu-a:8443/there/v1/completions", "/v1/completions"),
        ("//gpu-a/there", "/"),
        ("http://gpu-a", "/"),
        ("http://gpu-a:8000//other.example/x", "/other.example/x"),
        ("http://user:secret@gpu-a/x", "/x"),
        ("/there/x", "/x"),
        ("/therefore", "/therefore"),
        ("/x", "/x"),
        ("http://[gpu-a", "/"),
        ("x", "x"),
        ("?x=1", "?x=1"),
        ("https://docs.example/there/x", "https://docs.example/there/x"),
    ],
)
def test_an_address_of_the_server_itself_becomes_a_path(location: str, told: str) -> None:
    headers = {"location": location, "content-location": location, "x": location}
    assert addressed(headers, "gpu-A", "/there") == {
        "location": told,
        "content-location": told,
        "x": location,
    }
