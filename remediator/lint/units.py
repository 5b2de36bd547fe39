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

from fleet.finding import Finding
from fleet.recognise import OTHERS, SERVES, Certainty, Described, names_vllm
from fleet.unit_file import Unit
from remediator.lint import scheduled
from remediator.lint.rule import Place, Rule

OFF = frozenset({"", "0", "no", "infinity", "none"})
HEALTH_ON_FAILURE = re.compile(r"--health-on-failure[= ](?:kill|restart|stop)\b")
HEALTH = "Podman does so when its health check fails, which is late on a busy server"
ACTIONS = ("FailureAction", "StartLimitAction", "SuccessAction")


def certainty(unit: Unit) -> Certainty:
    """Whether the unit runs a vLLM server."""
    starts = [each.value for each in unit.commands() if each.key in ("ExecStart", "Exec")]
    started = " ".join(starts)
    image = next((each.value for each in unit.settings if each.key == "Image"), "")
    if image:
        return Described(unit.name, image, started).certainty
    if SERVES.search(started) or re.search(r"\bvllm/vllm-\w+", started):
        return Certainty.SURE
    # Where that leaves it open the name tells: of a drop-in, which starts nothing itunit, or of
    # a unit whose script starts the server.
    other = OTHERS.search(f"{unit.name} {started}") or scheduled.WATCHER.search(unit.name)
    return Certainty.SURE if names_vllm(unit.name) and not other else Certainty.NO


def names(unit: Unit) -> frozenset[str]:
    """The unit's name, if it is a server's."""
    return frozenset({unit.name} if certainty(unit) else ())


def findings(file: str, unit: Unit, known: frozenset[str]) -> Iterator[Finding]:
    """What in this unit may restart a server; ``known`` are names of servers."""
    if certainty(unit) or unit.name in known:
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
