"""Compose files: how the gateway and vLLM end.

stop_grace_period is 10 s unless written, stop_signal is the image's (docs.docker.com, "Compose
file reference", services).
"""

import re
from collections.abc import Iterator

from fleet.compose_file import described, services
from fleet.finding import Finding
from fleet.placed_yaml import Placed
from gateway.doctor.ending import DOCKER_SECONDS, Ending
from gateway.doctor.ours import Program, Shutdown, program, subject, swallowing_shell, words
from gateway.doctor.rule import RULES, Place, Rule
from gateway.doctor.times import Times

UNITS = {"us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
TERM = frozenset({"SIGTERM", "TERM", "15"})


def names(document: Placed, wanted: Program) -> frozenset[str]:
    """The names of the services and containers that run such a program."""
    found = {
        each
        for name, service in services(document).items()
        if program(described(name, service)) is wanted
        for each in (name, service.word("container_name"), service.word("hostname"))
    }
    return frozenset(found) - {""}


def findings(file: str, document: Placed, times: Times) -> Iterator[Finding]:
    """What is wrong with the end of the services that are ours."""
    for name, service in services(document).items():
        told = described(name, service)
        found = program(told)
        if found:
            whose = subject(found, told)
            yield from _of_end(file, service, found, whose, times)
            yield from _of_signals(file, service, whose)


def _of_end(
    file: str, service: Placed, found: Program, whose: str, times: Times
) -> Iterator[Finding]:
    said = service.get("stop_grace_period")
    first = service.get("command") or service.get("entrypoint") or service
    told = described("", service)
    yield from Ending(
        place=Place(file, (said or service).line),
        subject=whose,
        setting="stop_grace_period: ",
        unit="s",
        grace=_seconds(said.text) if said else DOCKER_SECONDS,
        default=said is None,
    ).findings(found, Shutdown.of(told), Place(file, first.line), times)


def _seconds(text: str) -> float | None:
    """Seconds of a duration such as 1m30s; None for what is none, a variable."""
    parts = re.findall(r"([0-9]{1,9})(us|ms|[smh])", text[:100])
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return sum(int(number) * UNITS[unit] for number, unit in parts)


def _of_signals(file: str, service: Placed, whose: str) -> Iterator[Finding]:
    signal = service.get("stop_signal")
    if signal and signal.text not in TERM and "$" not in signal.text:
        why = f"{whose}stop_signal is {signal.text}, has to be SIGTERM: by it a drain begins"
        fix = RULES[Rule.STOP_SIGNAL].fix.format(setting="stop_signal: ")
        place = Place(file, signal.line)
        yield place.finding(Rule.STOP_SIGNAL, why, have=signal.text, need="SIGTERM", fix=fix)
    command: list[str] = []
    for part in (service.get("entrypoint"), service.get("command")):
        if part is not None:
            command += [item.text for item in part.items] or words(part.text)
    shell = swallowing_shell(command)
    if shell:
        first = service.get("command") or service.get("entrypoint") or service
        why = f"{whose}{shell} gets SIGTERM and does not pass it on: SIGKILL comes unannounced"
        yield Place(file, first.line).finding(Rule.SHELL_SIGNAL, why)
