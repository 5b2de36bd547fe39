"""Compose files: what restarts the containers of services that are vLLM servers.

What Docker does (docs.docker.com, "Start containers automatically" and "Compose Deploy
Specification"; moby daemon/cluster/executor/container/controller.go, ErrContainerUnhealthy):
- `restart:` starts a container again that exited. `on-failure` leaves one alone that exited with 0,
  which is what vLLM does when its engine process has died.
- `healthcheck:` marks a container unhealthy and does nothing else, except in swarm mode: there the
  task of an unhealthy container is stopped, and replaced as `deploy.restart_policy` says.
- Autoheal and its kin restart what is marked unhealthy (remediator/lint/healers.py).
"""

import re
from collections.abc import Iterator, Sequence

from fleet.compose_file import command, described, health_test, services
from fleet.finding import Finding
from fleet.placed_yaml import Placed
from fleet.recognise import Certainty
from remediator.lint import scheduled
from remediator.lint.command import REQUEST
from remediator.lint.healers import Healer, Updater
from remediator.lint.rule import Place, Rule

# Compose alone has no use for these settings of `deploy`.
SWARM = ("restart_policy", "update_config", "rollback_config", "placement", "endpoint_mode")
MOST_HEALERS = 10
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def names(documents: Sequence[Placed]) -> frozenset[str]:
    """The names of the services and containers that are vLLM servers."""
    found = {
        each
        for document in documents
        for name, service in services(document).items()
        if described(name, service).certainty
        for each in (name, service.word("container_name"))
    }
    return frozenset(found) - {""}


def findings(file: str, documents: Sequence[Placed], known: frozenset[str]) -> Iterator[Finding]:
    """What in these documents may restart a server; ``known`` are names of servers."""
    for document in documents:
        of_document = services(document)
        healers = [each for each in map(Healer.of, of_document.values()) if each][:MOST_HEALERS]
        updaters = [each for each in map(Updater.of, of_document.values()) if each][:MOST_HEALERS]
        for name, service in of_document.items():
            told = described(name, service)
            if told.certainty:
                yield from _of_server(file, told.subject, service, healers, updaters)
            if told.certainty is not Certainty.SURE:
                first = service.get("command") or service.get("entrypoint") or service
                place, when = Place(file, first.line), f"in the service {name}"
                yield from scheduled.findings(place, when, command(service), known)


def _of_server(
    file: str,
    subject: str,
    service: Placed,
    healers: Sequence[Healer],
    updaters: Sequence[Updater],
) -> Iterator[Finding]:
    yield from _of_restart(file, subject, service)
    yield from _of_health(file, subject, service)
    yield from _of_healers(file, subject, service, healers)
    for updater in updaters:
        if updater.takes(service):
            why = (
                f"{subject}{updater.image} (line {updater.line}) restarts it whenever its image "
                f"{service.word('image')!r} has changed, however busy it is"
            )
            place = Place(file, (service.get("image") or service).line)
            yield place.finding(Rule.COMPOSE_UPDATER, why)


def _of_restart(file: str, subject: str, service: Placed) -> Iterator[Finding]:
    restart = service.get("restart")
    if restart is None or restart.text in ("", "no", "false"):
        return
    policy = restart.text
    why = f"{subject}restart: {policy} starts it again when it exits, and leaves a hung one alone"
    fix = None
    if policy.startswith("on-failure"):
        why = (
            f"{subject}restart: {policy} starts it again when it exits with a status but 0; vLLM "
            "exits with 0 when its engine has died"
        )
        fix = "write restart: unless-stopped; the remediator cools down from each new start"
    yield Place(file, restart.line).finding(Rule.COMPOSE_RESTART, why, fix)


def _of_health(file: str, subject: str, service: Placed) -> Iterator[Finding]:
    check = service.get("healthcheck")
    test = health_test(service)
    if check is None or not test:
        return
    deploy = service.get("deploy")
    swarm = [key for key in SWARM if deploy and deploy.get(key)]
    if swarm:
        why = (
            f"{subject}in swarm mode (deploy.{swarm[0]}) its task is stopped and replaced when "
            f"`{scheduled.shown(test)}` fails: {_count(check)}"
        )
        yield Place(file, check.line).finding(Rule.COMPOSE_SWARM, why)
    asked = REQUEST.search(test)
    if asked:
        why = f"{subject}its healthcheck asks the model ({asked[0].strip()}): {_count(check)}"
        yield Place(file, check.line).finding(Rule.COMPOSE_REQUEST, why)


def _of_healers(
    file: str, subject: str, service: Placed, healers: Sequence[Healer]
) -> Iterator[Finding]:
    """A label of its own, or a healer that takes all."""
    test = health_test(service)
    for healer in healers or [Healer.elsewhere()]:
        label = healer.label_of(service)
        if label is None and not (healer.takes_all and test):
            continue
        by = f"{healer.image} (line {healer.line})" if healer.line else healer.image
        check = service.get("healthcheck")
        when = (
            f"when `{scheduled.shown(test)}` fails: {_count(check)}"
            if check and test
            else "when the healthcheck of its image fails"
        )
        why = f"{subject}{by} restarts it {when}"
        line = label.line if label else healer.all_line
        how = (
            f"remove the label (line {label.line})"
            if label
            else "give labels to the containers to heal instead of AUTOHEAL_CONTAINER_LABEL=all"
        )
        yield Place(file, line).finding(Rule.COMPOSE_AUTOHEAL, why, healer.fix(how))


def _count(check: Placed) -> str:
    """``retries 3 x interval 30 s = 90 s``, with Docker's defaults."""
    retries = check.word("retries") or "3"
    seconds = _seconds(check.word("interval") or "30s")
    if seconds is None or not re.fullmatch(r"[0-9]{1,9}", retries):
        return f"retries {retries} x interval {check.word('interval') or '30s'}"
    return f"retries {retries} x interval {seconds:g} s = {int(retries) * seconds:g} s"


def _seconds(text: str) -> float | None:
    """Seconds of a duration as compose writes it: ``1m30s``; None where it is none."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|us|s|m|h)", text)
    if "".join(number + unit for number, unit in parts) != text or not parts:
        return None
    return sum(float(number) * UNITS.get(unit, 0.0) for number, unit in parts)
