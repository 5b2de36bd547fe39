"""Names looked up at a DNS server over a real socket."""

from collections.abc import Iterator

import dns.rcode
import pytest

from exporter.discovery import dns_sd
from exporter.discovery.dns_sd import DnsSD
from exporter.discovery.target import Finding, Target
from fleet.discovery import Dns, Record
from tests.exporter.discovery.dns_server import DnsServer

SRV = "_vllm._tcp.example.test"


@pytest.fixture
def server() -> Iterator[DnsServer]:
    with DnsServer() as server:
        yield server


def names(server: DnsServer, *names: str, kind: Record = Record.A, port: int | None = 8000) -> Dns:
    return Dns(names, kind, port, ("127.0.0.1", server.port))


def test_each_address_is_a_target_in_an_order_of_their_own(server: DnsServer) -> None:
    server.says("vllm.test", "A", "10.0.0.12", "10.0.0.11")
    assert DnsSD(names(server, "vllm.test")).look() == Finding(
        (Target("10.0.0.11", 8000), Target("10.0.0.12", 8000))
    )


def test_ipv6_addresses(server: DnsServer) -> None:
    server.says("vllm.test", "AAAA", "2001:db8::1")
    found = DnsSD(names(server, "vllm.test", kind=Record.AAAA)).look()
    assert found.targets == (Target("2001:db8::1", 8000),)
    assert server.asked == [("vllm.test.", "AAAA")]


def test_srv_says_host_and_port(server: DnsServer) -> None:
    server.says(SRV, "SRV", "0 5 8001 b.test.", "0 5 8000 a.test.", "0 5 8000 b.test.")
    found = DnsSD(names(server, SRV, kind=Record.SRV, port=None)).look()
    assert found.targets == (Target("a.test", 8000), Target("b.test", 8000), Target("b.test", 8001))


def test_srv_that_says_that_the_service_is_not_there(server: DnsServer) -> None:
    server.says(SRV, "SRV", "0 0 0 .")
    found = DnsSD(names(server, SRV, kind=Record.SRV, port=None)).look()
    assert found == Finding()


def test_the_next_look_sees_what_changed(server: DnsServer) -> None:
    server.says("vllm.test", "A", "10.0.0.11")
    lookup = DnsSD(names(server, "vllm.test"))
    lookup.look()
    server.says("vllm.test", "A", "10.0.0.12")
    assert lookup.look().targets == (Target("10.0.0.12", 8000),)


FAILURES = {
    "SERVFAIL": dns.rcode.SERVFAIL,
    "REFUSED": dns.rcode.REFUSED,
}


@pytest.mark.parametrize("rcode", FAILURES.values(), ids=FAILURES)
def test_a_resolver_that_fails_keeps_the_last_answer(
    rcode: dns.rcode.Rcode, server: DnsServer
) -> None:
    server.says("a.test", "A", "10.0.0.11")
    server.says("b.test", "A", "10.0.0.12")
    lookup = DnsSD(names(server, "a.test", "b.test"))
    before = lookup.look()
    server.rcode = rcode
    after = lookup.look()
    assert after.targets == before.targets
    assert [said.split(":")[0] for said in after.failures] == ["a.test", "b.test"]
    server.rcode = None
    assert lookup.look() == before


def test_a_resolver_that_does_not_answer_keeps_the_last_answer(
    server: DnsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dns_sd, "LIFETIME_SECONDS", 0.3)
    server.says("a.test", "A", "10.0.0.11")
    lookup = DnsSD(names(server, "a.test"))
    before = lookup.look()
    server.silent = True
    after = lookup.look()
    assert after.targets == before.targets
    assert after.failures == ("a.test: cannot be resolved: no answer within 0.3 s",)


def test_one_name_that_fails_takes_no_other_with_it(server: DnsServer) -> None:
    server.says("a.test", "A", "10.0.0.11")
    broken = "a" * 64
    found = DnsSD(names(server, broken, "a.test")).look()
    assert found.targets == (Target("10.0.0.11", 8000),)
    assert len(found.failures) == 1
    assert found.failures[0].startswith(f"{broken}: cannot be resolved: ")


def test_a_name_that_is_gone_has_nobody_any_more(server: DnsServer) -> None:
    server.says("a.test", "A", "10.0.0.11")
    lookup = DnsSD(names(server, "a.test", "nowhere.test"))
    found = lookup.look()
    assert found.targets == (Target("10.0.0.11", 8000),)
    assert (found.failures, found.notes) == ((), ("nowhere.test: there is no such name",))
    server.says("a.test", "A")
    assert lookup.look() == Finding(notes=found.notes)


def test_two_names_of_one_server_are_one_target(server: DnsServer) -> None:
    server.says("a.test", "A", "10.0.0.11")
    server.says("b.test", "A", "10.0.0.11")
    found = DnsSD(names(server, "a.test", "b.test")).look()
    assert found.targets == (Target("10.0.0.11", 8000),)


def test_a_successor_knows_what_its_predecessor_was_answered(server: DnsServer) -> None:
    server.says("a.test", "A", "10.0.0.11")
    before = DnsSD(names(server, "a.test"))
    found = before.look()
    server.rcode = dns.rcode.SERVFAIL
    successor = DnsSD(names(server, "a.test", "b.test"), before.known)
    assert successor.so_far() == found.targets
    assert successor.look().targets == found.targets
    another_port = DnsSD(names(server, "a.test", port=9000), before.known)
    assert another_port.look().targets == ()
