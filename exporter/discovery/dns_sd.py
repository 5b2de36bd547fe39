"""Looks names up in DNS; a name that cannot be resolved keeps its last answer.

That there is no such name, or no record of the type, is an answer: nothing is there any more.
"""

from collections.abc import Mapping
from typing import Any

import dns.exception
import dns.resolver
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.AAAA import AAAA
from dns.rdtypes.IN.SRV import SRV

from exporter.discovery.target import HOST, Finding, Target
from fleet.discovery import Dns

# For one name, all servers and tries together.
LIFETIME_SECONDS = 5.0


class DnsSD:
    """The names of one source."""

    def __init__(self, lookup: Dns, known: Mapping[Any, Any] | None = None) -> None:
        """``known``: what predecessors knew of their names, or files."""
        self._lookup = lookup
        self._questions = {
            name: (name, lookup.type, lookup.port, lookup.resolver) for name in lookup.names
        }
        self._known: dict[object, tuple[Target, ...]] = {
            question: answer
            for question, answer in (known or {}).items()
            if question in self._questions.values()
        }

    @property
    def known(self) -> Mapping[Any, Any]:
        """What to hand on to a successor."""
        return self._known

    def so_far(self) -> tuple[Target, ...]:
        """The targets of all names as last answered."""
        found = [
            target
            for question in self._questions.values()
            for target in self._known.get(question, ())
        ]
        return tuple(dict.fromkeys(found))

    def look(self) -> Finding:
        """Ask for all names, one after the other."""
        failures, notes = [], []
        for name, question in self._questions.items():
            try:
                self._known = {**self._known, question: self._resolved(name)}
            except dns.resolver.NXDOMAIN:
                self._known = {**self._known, question: ()}
                notes.append(f"{name}: there is no such name")
            except dns.resolver.NoAnswer:
                self._known = {**self._known, question: ()}
            except (dns.exception.DNSException, OSError) as error:
                failures.append(f"{name}: cannot be resolved: {_why(error)}")
        return Finding(self.so_far(), tuple(failures), tuple(notes))

    def _resolved(self, name: str) -> tuple[Target, ...]:
        """The targets of one name, in an order of their own. Raises DNSException."""
        # Anew each time: /etc/resolv.conf may have changed.
        resolver = dns.resolver.Resolver(configure=self._lookup.resolver is None)
        if self._lookup.resolver is not None:
            host, port = self._lookup.resolver
            resolver.nameservers = [host]
            resolver.port = port
        answer = resolver.resolve(name, self._lookup.type, lifetime=LIFETIME_SECONDS, search=True)
        targets = []
        for record in answer:
            match record:
                case A() | AAAA():
                    targets.append(Target(record.address, self._lookup.port))
                case SRV():
                    host = record.target.to_text(omit_final_dot=True)
                    # A target of "." says that the service is not there.
                    if HOST.fullmatch(host) and record.port:
                        targets.append(Target(host, record.port))
        return tuple(sorted(targets, key=lambda target: (target.host, target.port)))


def _why(error: Exception) -> str:
    if isinstance(error, dns.exception.Timeout):
        return f"no answer within {LIFETIME_SECONDS:g} s"
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
