"""What is wrong between settings that are each valid: one sentence for each mistake."""

from fleet.discovery import Record
from fleet.schema import DiscoverySection, FleetFile, RemediatorSection, RestartSection

WAYS = ("command", "systemd", "docker", "kubernetes")
TARGETS = ("pod", "selector", "workload")


def contradictions(fleet: FleetFile) -> list[str]:
    """What is wrong between settings that are each valid."""
    problems = []
    if not fleet.backends and not fleet.discovery:
        problems.append(
            "backends: is required where there is no discovery: a list of backends, each with a "
            "name and a url"
        )
    waits = [(f"backends[{i}]", entry.wait) for i, entry in enumerate(fleet.backends)]
    waits += [(f"discovery[{i}]", entry.wait) for i, entry in enumerate(fleet.discovery)]
    for place, own in waits:
        wait = own or fleet.defaults.wait
        if wait < 2 * fleet.exporter.interval:
            problems.append(
                f"{place}.wait: {wait:g}s is shorter than two poll intervals "
                f"(exporter.interval is {fleet.exporter.interval:g}s); one wait must hold two reads"
            )
    for i, backend in enumerate(fleet.backends):
        if backend.restart is not None:
            place = f"backends[{i}].restart"
            problems += [place + problem for problem in _restart_problems(backend.restart)]
    if fleet.remediator is not None:
        problems += [f"remediator{problem}" for problem in _remediator_problems(fleet.remediator)]
    problems += _twice("backends", [entry.name for entry in fleet.backends])
    problems += _twice("discovery", [entry.name for entry in fleet.discovery])
    for i, entry in enumerate(fleet.discovery):
        problems += [f"discovery[{i}]{problem}" for problem in _source_problems(entry)]
    if fleet.exporter.timeout > fleet.exporter.interval:
        problems.append(
            f"exporter.timeout: {fleet.exporter.timeout:g}s is longer than exporter.interval "
            f"({fleet.exporter.interval:g}s); one read must end before the next begins"
        )
    return problems


def _twice(section: str, names: list[str | None]) -> list[str]:
    """A sentence for each name that an earlier entry of the section has."""
    return [
        f"{section}[{i}].name: {name!r} is already the name of {section}[{names.index(name)}]"
        for i, name in enumerate(names)
        if name is not None and names.index(name) < i
    ]


def _restart_problems(entry: RestartSection) -> list[str]:
    given = [way for way in WAYS if getattr(entry, way) is not None]
    if len(given) != 1:
        return [f": needs one of {', '.join(WAYS)}{_but(given)}"]
    if entry.docker is not None:
        return _grace_problems(".docker", entry.docker.grace, entry.timeout)
    if entry.kubernetes is None:
        return []
    given = [target for target in TARGETS if getattr(entry.kubernetes, target) is not None]
    if len(given) != 1:
        return [f".kubernetes: needs one of {', '.join(TARGETS)}{_but(given)}"]
    if entry.kubernetes.workload and entry.kubernetes.grace:
        return [".kubernetes.grace: is for pods; a workload has its own"]
    return _grace_problems(".kubernetes", entry.kubernetes.grace or 0.0, entry.timeout)


def _grace_problems(way: str, grace: float, timeout: float) -> list[str]:
    if grace < timeout:
        return []
    return [f"{way}.grace: {grace:g}s is not shorter than restart.timeout ({timeout:g}s)"]


def _but(given: list[str]) -> str:
    return f", and has {' and '.join(given)}" if given else ""


def _remediator_problems(entry: RemediatorSection) -> list[str]:
    problems = []
    if entry.token_file is None and entry.basic_auth is None:
        problems.append(
            ".token_file: is required where there is no basic_auth: the file with the bearer token "
            "that Alertmanager sends"
        )
    if entry.longest_cool_down is not None and entry.longest_cool_down < entry.cool_down:
        problems.append(
            f".longest_cool_down: {entry.longest_cool_down:g}s is shorter than cool_down "
            f"({entry.cool_down:g}s)"
        )
    return problems


def _source_problems(entry: DiscoverySection) -> list[str]:
    if (entry.files is None) is (entry.dns is None):
        return [": needs either files or dns"]
    if entry.dns is None or (entry.dns.port is None) is (entry.dns.type == Record.SRV):
        return []
    if entry.dns.port is None:
        return [f".dns.port: is required with type {entry.dns.type}, whose records hold no port"]
    return [f".dns.port: {entry.dns.port} cannot stand with type SRV, whose records hold the port"]
