"""HOST:PORT, and a socket that listens there."""

import socket
from argparse import ArgumentTypeError

import pytest

from fleet.listen import Listen, listen_address

VALID = {
    "127.0.0.1:9109": Listen("127.0.0.1", 9109),
    ":9109": Listen("0.0.0.0", 9109),
    "[::1]:0": Listen("::1", 0),
    "localhost:65535": Listen("localhost", 65535),
}


@pytest.mark.parametrize("text", VALID)
def test_an_address_is_read(text: str) -> None:
    assert listen_address(text) == VALID[text]


@pytest.mark.parametrize("text", ["", "9109", "host:", "host:x", "host:65536", "::1:80", "h:-1"])
def test_anything_else_is_one_sentence(text: str) -> None:
    with pytest.raises(ArgumentTypeError) as error:
        listen_address(text)
    assert str(error.value) == f"{text!r} is not HOST:PORT"


def test_it_is_written_as_it_is_read() -> None:
    assert str(Listen("::1", 80)) == "[::1]:80"
    assert str(Listen("localhost", 80)) == "localhost:80"


def test_a_bound_socket_listens_and_a_second_is_refused() -> None:
    with Listen("127.0.0.1", 0).bound() as sock:
        port = sock.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        with pytest.raises(OSError, match="in use"):
            Listen("127.0.0.1", port).bound()


def test_a_host_that_does_not_resolve_is_an_os_error() -> None:
    with pytest.raises(OSError, match=r"."):
        Listen("no such host.invalid", 1).bound()
