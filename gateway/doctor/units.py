"""systemd units and Quadlet files: how the gateway and vLLM end.

- TimeoutStopSec (90 s) from SIGTERM to SIGKILL; TimeoutSec sets it, too (systemd.service(5)).
- KillMode=control-group, the default, sends SIGTERM to every process of a unit: to vLLM's engine,
  too, and then no stream finishes. mixed sends it to the main process, which leads the others, and
  SIGKILL to what is left (systemd.kill(5); tried with vLLM 0.32). process and none leave the engine
  behind.
- A container that a unit runs ends by its engine's own rules: --stop-timeout or StopTimeout=, 10 s
  unless written (podman-systemd.unit(5), docker-run(1)).
A drop-in counts after its unit; alone, only what stands in it is looked at.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fleet.finding import Finding
from fleet.recognise import Described, names_vllm
from fleet.unit_file import Setting, Unit
from gateway.doctor.ending import DOCKER_SECONDS, SYSTEMD_SECONDS, Ending
from gateway.doctor.ours import NAMED, Program, Shutdown, program, swallowing_shell, words
from gateway.doctor.rule import RULES, Place, Rule
from gateway.doctor.times import Times

UNITS = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec"), 0.001),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
}
FOREVER = frozenset({"infinity", "0"})
CONTAINER_RUN = re.compile(r"(?:^|/)(?:docker|podman|nerdctl)\s(?:.*\s)?run\s")
STOP_TIMEOUT = re.compile(r"--stop-timeout[= ]([0-9]{1,9})\b")


@dataclass(frozen=True)
class UnitFile:
    """A unit or one of its drop-ins; ``whole`` is False for a drop-in."""

    file: str
    unit: Unit
    kind: str
    whole: bool


@dataclass(frozen=True)
class _Whole:
    """A unit with its drop-ins."""

    name: str
    kind: str
    based: bool
    placed: tuple[tuple[str, Setting], ...]

    def last(self, *keys: str) -> tuple[Place, str] | None:
        found = [(file, each) for file, each in self.placed if each.key in keys]
        return (Place(found[-1][0], found[-1][1].line), found[-1][1].value) if found else None

    def started(self) -> tuple[Place, str] | None:
        said = self.last("ExecStart", "Exec")
        return (said[0], said[1].lstrip("-@:+!")) if said else None


def findings(files: Sequence[UnitFile], times: Times) -> Iterator[Finding]:
    """What is wrong with the end of the units that are ours."""
    groups: dict[tuple[str, str], list[UnitFile]] = {}
    for each in sorted(files, key=lambda each: (not each.whole, each.file)):
        groups.setdefault((each.unit.name, each.kind), []).append(each)
    for (name, kind), group in groups.items():
        placed = tuple((each.file, setting) for each in group for setting in each.unit.settings)
        yield from _of_unit(_Whole(name, kind, group[0].whole, placed), times)


def _described(unit: _Whole) -> Described:
    image, started = unit.last("Image"), unit.started()
    command = started[1] if started else ""
    run = re.search(r"(?<!\S)(\S*vllm-openai\S*|\S*\bvllm/vllm\S*)", command)
    return Described(unit.name, image[1] if image else (run[1] if run else ""), command)


def _program(unit: _Whole, told: Described) -> Program | None:
    if unit.based:
        return program(told)
    if NAMED.search(unit.name):
        return Program.GATEWAY
    return Program.VLLM if names_vllm(unit.name) else None


def _of_unit(unit: _Whole, times: Times) -> Iterator[Finding]:
    told = _described(unit)
    found = _program(unit, told)
    if found is None or not unit.placed:
        return
    subject = f"{unit.name}: "
    started = unit.started()
    first = started[0] if started else Place(unit.placed[0][0], unit.placed[0][1].line)
    contained = unit.kind == "container" or CONTAINER_RUN.search(told.command) is not None
    if started or unit.last("TimeoutStopSec", "TimeoutSec", "StopTimeout"):
        shutdown = Shutdown.of(told)
        ending = _ending(unit, subject, first, contained=contained)
        yield from ending.findings(found, shutdown, first, times)
    if not contained:
        yield from _of_kill(unit, found, subject, first)
        shell = swallowing_shell(words(told.command))
        if shell:
            why = f"{subject}{shell} gets SIGTERM and does not pass it on: the streams are cut"
            yield first.finding(Rule.SHELL_SIGNAL, why)


def _ending(unit: _Whole, subject: str, first: Place, *, contained: bool) -> Ending:
    if contained:
        said = unit.last("StopTimeout") if unit.kind == "container" else None
        run = STOP_TIMEOUT.search((unit.started() or (first, ""))[1])
        text = said[1] if said else (run[1] if run else "")
        setting = "StopTimeout=" if unit.kind == "container" else "--stop-timeout="
        grace = _seconds(text) if text else DOCKER_SECONDS
        place = said[0] if said else first
        return Ending(place, subject, setting, "", grace, default=not text)
    said = unit.last("TimeoutStopSec", "TimeoutSec")
    grace = _seconds(said[1]) if said else SYSTEMD_SECONDS
    place = said[0] if said else first
    return Ending(place, subject, "TimeoutStopSec=", "", grace, default=said is None)


def _seconds(text: str) -> float | None:
    """Seconds of a span such as 90, 2min or 1min 30s; None for ever, and for what is none."""
    parts = re.findall(r"([0-9]{1,9})\s*([a-z]*)", text[:100])
    if text.strip() in FOREVER or not parts or any(unit not in UNITS for _, unit in parts):
        return None
    return sum(int(number) * UNITS[unit] for number, unit in parts)


def _of_kill(unit: _Whole, found: Program, subject: str, first: Place) -> Iterator[Finding]:
    said = unit.last("KillMode")
    mode = said[1] if said else "control-group"
    right = {"mixed"} if found is Program.VLLM else {"mixed", "control-group", "process"}
    if mode not in right and (said or unit.based):
        why = {
            Program.GATEWAY: f"{subject}KillMode is {mode}: nobody ends it with a drain",
            Program.VLLM: f"{subject}KillMode is {mode}, has to be mixed: by control-group SIGTERM "
            "goes to the engine, too, and no stream finishes; by others the engine is left behind",
        }[found]
        place = said[0] if said else first
        yield place.finding(Rule.KILL_MODE, why, have=mode, need="mixed")
    signal = unit.last("KillSignal")
    if signal and signal[1] not in ("SIGTERM", "TERM", "15"):
        why = f"{subject}KillSignal is {signal[1]}, has to be SIGTERM: by it a drain begins"
        fix = RULES[Rule.STOP_SIGNAL].fix.format(setting="KillSignal=")
        yield signal[0].finding(Rule.STOP_SIGNAL, why, have=signal[1], need="SIGTERM", fix=fix)
