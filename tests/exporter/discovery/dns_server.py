"""A DNS server on loopback whose answers can be changed while it runs."""

import socket
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


class DnsServer:
    """Answers over UDP. A name it has nothing of does not exist; ``refuses`` fails all."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.asked: list[tuple[str, str]] = []
        self.rcode: dns.rcode.Rcode | None = None
        self.silent = False
        self._records: dict[str, dict[str, Sequence[str]]] = {}
        self._thread = threading.Thread(target=self._serve, name="dns-server")

    def says(self, name: str, kind: str, *values: str) -> None:
        """Have it answer so from now on; without values the name has no such record."""
        self._records.setdefault(f"{name}.", {})[kind] = values

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join(60.0)
        self._socket.close()
        assert not self._thread.is_alive()

    def _serve(self) -> None:
        while True:
            wire, client = self._socket.recvfrom(4096)
            if not wire:
                return
            answer = self._answer(dns.message.from_wire(wire))
            if not self.silent:
                self._socket.sendto(answer.to_wire(), client)

    def _answer(self, query: dns.message.Message) -> dns.message.Message:
        (question,) = query.question
        name, kind = question.name.to_text(), dns.rdatatype.to_text(question.rdtype)
        self.asked.append((name, kind))
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        records = self._records.get(name)
        if self.rcode is not None:
            answer.set_rcode(self.rcode)
        elif records is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        elif records.get(kind):
            answer.answer.append(dns.rrset.from_text(name, 30, "IN", kind, *records[kind]))
        return answer
