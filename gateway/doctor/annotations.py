"""Annotations of Ingresses and Services in front of the gateway; ingress-nginx's ConfigMap.

- AWS Load Balancer Controller (its guides "Ingress annotations" and "Service annotations"):
  `…/load-balancer-attributes`, `…/target-group-attributes`, and per listener
  `…/aws-load-balancer-listener-attributes.TCP-443`; lists of `key=value`.
- Defaults (docs.aws.amazon.com, Elastic Load Balancing): an Application Load Balancer's idle
  timeout 60 s; a Network Load Balancer's 350 s, fixed for TLS; a Classic one's 60 s; a
  deregistration delay of 300 s.
- ingress-nginx (its "Annotations" and "ConfigMap"): proxy-read-timeout 60 s, proxy-buffering off,
  worker-shutdown-timeout 240s, retry-non-idempotent false. F5's ingress controller (`nginx.org/`):
  proxy-read-timeout 60s, proxy-buffering on.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleet.finding import Finding
from fleet.placed_yaml import Placed
from gateway.doctor import proxy
from gateway.doctor.nginx import UNDER_WAY
from gateway.doctor.nginx_file import nginx_seconds
from gateway.doctor.ours import NAMED
from gateway.doctor.proxy import Wait
from gateway.doctor.rule import Place, Rule
from gateway.doctor.times import Times

ALB = "alb.ingress.kubernetes.io/"
ELB = "service.beta.kubernetes.io/aws-load-balancer-"
INGRESS_NGINX = "nginx.ingress.kubernetes.io/"
F5 = "nginx.org/"
NLB_TYPES = frozenset({"nlb", "nlb-ip", "external"})
IDLE = "idle_timeout.timeout_seconds"
TCP_IDLE = "tcp.idle_timeout.seconds"
DEREGISTRATION = "deregistration_delay.timeout_seconds"
ALB_SECONDS = 60.0
NLB_SECONDS = 350.0
CLASSIC_SECONDS = 60.0
DEREGISTRATION_SECONDS = 300.0
NGINX_SECONDS = 60.0


def findings(file: str, thing: Placed, services: frozenset[str], times: Times) -> Iterator[Finding]:
    """What does not fit in an object in front of the gateway, whose Services are ``services``."""
    name = thing.word("metadata", "name")
    match thing.word("kind"):
        case "Ingress" if any(_is_ours(each, services) for each in _backends(thing)):
            yield from _of_ingress(file, thing, times)
        case "Service" if _is_ours(name, services):
            yield from _of_service(file, thing, times)
        case "ConfigMap":
            yield from _of_config_map(file, thing, times)


def _is_ours(name: str, services: frozenset[str]) -> bool:
    return name in services or NAMED.search(name) is not None


def _backends(ingress: Placed) -> Iterator[str]:
    for below in ingress.walk():
        for key in ("service", "backend", "defaultBackend"):
            yield below.word(key, "name") or below.word(key, "serviceName")


def _annotations(thing: Placed) -> Mapping[str, Placed]:
    found = thing.get("metadata", "annotations")
    return found.entries if found else {}


def _of_ingress(file: str, ingress: Placed, times: Times) -> Iterator[Finding]:
    said = _annotations(ingress)
    named = ingress.get("spec", "ingressClassName") or said.get("kubernetes.io/ingress.class")
    kind = named.text if named else ""
    line = (named or ingress.get("metadata") or ingress).line
    place = Place(file, line)
    if kind == "alb" or any(key.startswith(ALB) for key in said):
        yield from _of_alb(place, said, times)
    elif any(key.startswith(F5) for key in said):
        yield from _of_nginx(place, said, F5, times, buffers=True)
    elif kind == "nginx" or any(key.startswith(INGRESS_NGINX) for key in said):
        yield from _of_nginx(place, said, INGRESS_NGINX, times, buffers=False)


def _of_alb(place: Place, said: Mapping[str, Placed], times: Times) -> Iterator[Finding]:
    attribute = _Attribute(f"{ALB}load-balancer-attributes", IDLE, ALB_SECONDS)
    # Another Ingress of the same group may say it.
    if f"{ALB}group.name" not in said or IDLE in _attributes(said.get(attribute.key)):
        wait = attribute.wait(place, said, "the ALB's idle timeout")
        yield from proxy.idle(wait, times)
        yield from proxy.reuse(wait, times)
    yield from _of_target_group(place, said, f"{ALB}target-group-attributes", times)


def _of_target_group(
    place: Place, said: Mapping[str, Placed], key: str, times: Times
) -> Iterator[Finding]:
    attribute = _Attribute(key, DEREGISTRATION, DEREGISTRATION_SECONDS)
    wait = attribute.wait(place, said, "the target group's deregistration delay")
    yield from proxy.deregistration(wait, times)


def _attributes(said: Placed | None) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in (said.text if said else "").split(","))
    return {key.strip(): value.strip() for key, _, value in pairs if key.strip()}


@dataclass(frozen=True)
class _Attribute:
    """A number of seconds in a list of attributes, which is the annotation ``key``."""

    key: str
    name: str
    default: float

    def wait(self, place: Place, said: Mapping[str, Placed], subject: str) -> Wait:
        """What it says; its fix keeps the other attributes of the list."""
        written = _attributes(said.get(self.key))
        value = written.get(self.name, "")
        others = [f"{key}={each}" for key, each in written.items() if key != self.name]
        fix = f"{self.key}: {','.join([*others, f'{self.name}=SECONDS'])}"
        # What others have written may have braces in it.
        fix = fix.replace("{", "{{").replace("}", "}}").replace("=SECONDS", "={seconds}")
        if re.fullmatch(r"[0-9]{1,9}", value):
            return Wait(Place(place.file, said[self.key].line), subject, float(value), fix)
        return Wait(place, f"{subject} (by default)", self.default, fix)


def _of_service(file: str, service: Placed, times: Times) -> Iterator[Finding]:
    said = _annotations(service)
    kind = service.get("spec", "type")
    if kind is None or kind.text != "LoadBalancer":
        return
    place = Place(file, kind.line)
    declared = said.get(f"{ELB}type")
    load_balancer_class = service.word("spec", "loadBalancerClass")
    if (declared and declared.text in NLB_TYPES) or load_balancer_class == "service.k8s.aws/nlb":
        yield from _of_nlb(place, said, times)
        yield from _of_target_group(place, said, f"{ELB}target-group-attributes", times)
    elif any(key.startswith(ELB) for key in said):
        key = f"{ELB}connection-idle-timeout"
        at = said.get(key)
        number = at.text if at and re.fullmatch(r"[0-9]{1,9}", at.text) else None
        have = float(number) if number else CLASSIC_SECONDS
        where = Place(file, at.line) if at else place
        subject = f"the load balancer's idle timeout{'' if at else ' (by default)'}"
        yield from proxy.idle(Wait(where, subject, have, f'{key}: "{{seconds}}"'), times)


def _of_nlb(place: Place, said: Mapping[str, Placed], times: Times) -> Iterator[Finding]:
    prefix = f"{ELB}listener-attributes."
    for key in [key for key in said if key.startswith(prefix)] or [f"{prefix}TCP-443"]:
        attribute = _Attribute(key, TCP_IDLE, NLB_SECONDS)
        yield from proxy.idle(attribute.wait(place, said, "the NLB's idle timeout"), times)


def _of_nginx(
    place: Place, said: Mapping[str, Placed], prefix: str, times: Times, *, buffers: bool
) -> Iterator[Finding]:
    def at(name: str) -> tuple[Place, str]:
        found = said.get(f"{prefix}{name}")
        return (Place(place.file, found.line), found.text.strip()) if found else (place, "")

    where, text = at("proxy-read-timeout")
    have = NGINX_SECONDS if not text else nginx_seconds(text)
    if have is not None:
        subject = f"proxy-read-timeout{'' if text else ' (by default)'}"
        fix = f'{prefix}proxy-read-timeout: "{{seconds}}"'
        yield from proxy.idle(Wait(where, subject, have, fix), times)
    where, text = at("proxy-buffering")
    if text.lower() in ("on", "true") or (buffers and not text):
        why = "proxy-buffering is on: only the gateway's X-Accel-Buffering: no keeps events from "
        why += "waiting until a buffer is full"
        fix = f'{prefix}proxy-buffering: "{"false" if buffers else "off"}"'
        yield where.finding(Rule.BUFFERING_DEFAULT, why, have="on", need="off", fix=fix)
    where, text = at("proxy-next-upstream")
    if "non_idempotent" in text and not UNDER_WAY.isdisjoint(text.split()):
        setting = f"proxy-next-upstream {text}"
        yield proxy.retry(where, setting, f'{prefix}proxy-next-upstream: "error timeout"')
    where, text = at("proxy-http-version")
    if text == "1.0":
        yield where.finding(
            Rule.HTTP_VERSION,
            "proxy-http-version is 1.0, has to be 1.1: the end of an answer is a closed "
            "connection, and a stream that is cut looks complete",
            have="1.0",
            need="1.1",
            fix=f'{prefix}proxy-http-version: "1.1"',
        )


def _of_config_map(file: str, config: Placed, times: Times) -> Iterator[Finding]:
    data = config.get("data")
    said = data.entries if data else {}
    if not ("nginx" in config.word("metadata", "name") or "worker-shutdown-timeout" in said):
        return
    end = said.get("worker-shutdown-timeout")
    have = nginx_seconds(end.text) if end else None
    if end and have:
        fix = "worker-shutdown-timeout: {seconds}s"
        place = Place(file, end.line)
        yield from proxy.shutdown(Wait(place, "worker-shutdown-timeout", have, fix), times)
    again = said.get("retry-non-idempotent")
    if again and again.text.lower() == "true":
        place = Place(file, again.line)
        yield proxy.retry(place, "retry-non-idempotent", 'retry-non-idempotent: "false"')
    read = said.get("proxy-read-timeout")
    seconds = nginx_seconds(read.text) if read else None
    if read and seconds is not None:
        fix = 'proxy-read-timeout: "{seconds}"'
        yield from proxy.idle(
            Wait(Place(file, read.line), "proxy-read-timeout", seconds, fix), times
        )


def services(things: Sequence[Placed], selected: Sequence[Mapping[str, str]]) -> frozenset[str]:
    """The names of the Services whose selector takes one of these pods' labels."""
    found: set[str] = set()
    for thing in things:
        selector = thing.get("spec", "selector")
        if thing.word("kind") != "Service" or selector is None or not selector.entries:
            continue
        wanted = {key: each.text for key, each in selector.entries.items()}
        if any(wanted.items() <= labels.items() for labels in selected):
            found.add(thing.word("metadata", "name"))
    return frozenset(found) - {""}
