"""systemd units of vLLM servers, their drop-ins and Quadlet files; units that restart them.

What systemd does (systemd.service(5)):
- Restart= starts again what exited, was killed by a signal or ran into a timeout; on-failure not
  after a status of 0, which is what vLLM exits with when its engine process has died.
- WatchdogSec= kills a service that does not send WATCHDOG=1 by sd_notify(3) in that time. vLLM
  tells systemd nothing (vllm-project/vllm pull 57637, open in September 2026, adds READY=1 alone).
- RuntimeMaxSec= kills a service that has run for so long.
- FailureAction=, StartLimitAction= and SuccessAction= can reboot the machine (systemd.unit(5)).
HealthOnFailure= in a Quadlet file has Podman kill, stop or restart an unhealthy container
(podman-systemd.unit(5); containers/podman pull 15953).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from fleet.finding import Finding
from remediator.lint import scheduled
from remediator.lint.rule import Place, Rule
from remediator.lint.server import OTHERS, SERVES, Certainty, Described, names_vllm

OFF = frozenset({"", "0", "no", "infinity", "none"})
HEALTH_ON_FAILURE = re.compile(r"--health-on-failure[= ](?:kill|restart|stop)\b")
HEALTH = "Podman does so when its health check fails, which is late on a busy server"
ACTIONS = ("FailureAction", "StartLimitAction", "SuccessAction")


@dataclass(frozen=True)
class Setting:
    """``key = value``, where continued lines are one; ``line`` is the first of them."""

    line: int
    key: str
    value: str


@dataclass(frozen=True)
class Unit:
    """A unit file or a drop-in of one."""

    name: str
    settings: tuple[Setting, ...]

    @classmethod
    def of(cls, path: PurePath, text: str) -> "Unit":
        """``vllm.service`` and its drop-ins ``vllm.service.d/*.conf`` are units named vllm."""
        owner = path.parent.name.removesuffix(".d") if path.suffix == ".conf" else path.name
        return cls(owner.rpartition(".")[0], tuple(_settings(text)))

    def last(self, key: str) -> Setting | None:
        """The setting that counts where one is written several times."""
        found = [each for each in self.settings if each.key == key]
        return found[-1] if found else None

    def commands(self) -> Iterator[Setting]:
        """What the unit runs, without the prefixes that systemd takes off (``-@:+!``)."""
        for each in self.settings:
            if each.key.startswith("Exec") and each.value.lstrip("-@:+!"):
                yield Setting(each.line, each.key, each.value.lstrip("-@:+!"))

    @property
    def certainty(self) -> Certainty:
        """Whether the unit runs a vLLM server."""
        starts = [each.value for each in self.commands() if each.key in ("ExecStart", "Exec")]
        started = " ".join(starts)
        image = next((each.value for each in self.settings if each.key == "Image"), "")
        if image:
            return Described(self.name, image, started).certainty
        if SERVES.search(started) or re.search(r"\bvllm/vllm-\w+", started):
            return Certainty.SURE
        # Where that leaves it open the name tells: of a drop-in, which starts nothing itself, or of
        # a unit whose script starts the server.
        other = OTHERS.search(f"{self.name} {started}") or scheduled.WATCHER.search(self.name)
        return Certainty.SURE if names_vllm(self.name) and not other else Certainty.NO


def _settings(text: str) -> Iterator[Setting]:
    begun: list[str] = []
    first = 0
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith(("#", ";")) or not (stripped or begun):
            continue
        first = first if begun else number
        begun.append(stripped.removesuffix("\\"))
        if stripped.endswith("\\"):
            continue
        key, equals, value = " ".join(begun).partition("=")
        if equals:
            yield Setting(first, key.strip(), value.strip())
        begun = []


def names(unit: Unit) -> frozenset[str]:
    """The unit's name, if it is a server's."""
    return frozenset({unit.name} if unit.certainty else ())


def findings(file: str, unit: Unit, known: frozenset[str]) -> Iterator[Finding]:
    """What in this unit may restart a server; ``known`` are names of servers."""
    if unit.certainty or unit.name in known:
        yield from _of_server(file, unit)
    else:
        for command in unit.commands():
            place, when = Place(file, command.line), f"whenever {unit.name} is started"
            yield from scheduled.findings(place, when, command.value, known)


def _of_server(file: str, unit: Unit) -> Iterator[Finding]:
    for key, rule, why in (
        (
            "WatchdogSec",
            Rule.UNIT_WATCHDOG,
            "vLLM sends no WATCHDOG=1, and is killed that long after its start",
        ),
        (
            "RuntimeMaxSec",
            Rule.UNIT_RUNTIME,
            "a healthy server is killed that long after its start",
        ),
        ("HealthOnFailure", Rule.UNIT_HEALTH, HEALTH),
        *(
            (key, Rule.UNIT_REBOOT, "the machine goes down with every other server on it")
            for key in ACTIONS
        ),
    ):
        setting = unit.last(key)
        if setting and setting.value.lower() not in OFF:
            said = f"{unit.name}: {key}={setting.value}: {why}"
            yield Place(file, setting.line).finding(rule, said)
    for command in unit.commands():
        podman = HEALTH_ON_FAILURE.search(command.value)
        if podman:
            said = f"{unit.name}: {podman[0]}: {HEALTH}"
            fix = "remove --health-on-failure and let the remediator restart"
            yield Place(file, command.line).finding(Rule.UNIT_HEALTH, said, fix)
    restart = unit.last("Restart")
    if restart and restart.value.lower() not in OFF:
        yield _of_restart(Place(file, restart.line), unit.name, restart.value)


def _of_restart(place: Place, name: str, value: str) -> Finding:
    if value in ("always", "on-success"):
        why = f"{name}: Restart={value} starts it again when it exits, and leaves a hung one alone"
        return place.finding(Rule.UNIT_RESTART, why)
    why = (
        f"{name}: Restart={value} leaves it down after a status of 0, which vLLM exits with when "
        "its engine has died"
    )
    fix = "write Restart=always; the remediator cools down from each new start"
    return place.finding(Rule.UNIT_RESTART, why, fix)
