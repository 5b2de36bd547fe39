"""Ports that are free are reserved for whoever asks for just them, as often as they like."""

import socket

import pytest

from demo.child import free_ports


def test_they_are_all_different() -> None:
    assert len(set(free_ports(20) + free_ports(20))) == 40


def test_nobody_listens_there() -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", free_ports(1)[0]), timeout=60.0)


def test_a_server_may_listen_there_again_and_again() -> None:
    (port,) = free_ports(1)
    for _ in range(3):
        with (
            socket.create_server(("127.0.0.1", port)) as server,
            socket.create_connection(("127.0.0.1", port), timeout=60.0),
        ):
            server.accept()[0].close()


def test_whoever_does_not_ask_for_just_this_one_does_not_get_it() -> None:
    (port,) = free_ports(1)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
