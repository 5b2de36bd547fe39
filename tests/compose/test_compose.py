"""The container stack: valid, pinned, closed, and of one mind with the other configurations."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

import exporter.serve
import gateway.start
import remediator.__main__
from demo.vllm.__main__ import settings
from fleet.flags import flags
from fleet.settings import Mode, load

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
SECRETS = "deploy/compose/secrets"

each_service = pytest.mark.parametrize("name", SERVICES)


def mounts(name: str) -> list[tuple[str, str, str]]:
    """Source, target and mode of every mount."""
    split = [mount.split(":") for mount in SERVICES[name].get("volumes", ())]
    return [(source, target, mode[0] if mode else "rw") for source, target, *mode in split]


def published(name: str) -> dict[int, int]:
    """The port inside by the port outside."""
    ports = [port.split(":") for port in SERVICES[name]["ports"]]
    return {int(outside): int(inside) for _, outside, inside in ports}


def listens_at(url: str) -> bool:
    """Whether a URL, or a HOST:PORT, is a service and the port it listens on."""
    parts = urlsplit(url if "//" in url else f"//{url}")
    return parts.port in published(parts.hostname or "").values()


def configuration(file: str) -> dict[str, Any]:
    tree: dict[str, Any] = yaml.safe_load((ROOT / file).read_text())
    return tree


def test_the_file_is_valid_by_the_compose_specification() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "check_jsonschema",
            "--builtin-schema",
            "vendor.compose-spec",
            str(ROOT / "docker-compose.yml"),
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@each_service
def test_an_image_is_pinned(name: str) -> None:
    _, _, tag = SERVICES[name]["image"].partition(":")
    assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag)


def test_our_image_bears_our_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    ours = {service["image"] for service in SERVICES.values() if "build" in service}
    assert ours == {f"vllm-lifeguard:{version}"}


@each_service
def test_what_is_mounted_exists_and_cannot_be_written(name: str) -> None:
    for source, target, mode in mounts(name):
        if source.startswith("."):
            assert (ROOT / source).exists(), source
            assert mode == "ro", target
        else:
            assert source in COMPOSE["volumes"]


def test_every_volume_is_used() -> None:
    used = {source for name in SERVICES for source, _, _ in mounts(name)}
    assert set(COMPOSE["volumes"]) <= used


@each_service
def test_a_service_is_no_way_into_the_machine(name: str) -> None:
    service = SERVICES[name]
    assert "privileged" not in service
    assert "network_mode" not in service
    assert "no-new-privileges:true" in service["security_opt"]
    assert not any("docker.sock" in source for source, _, _ in mounts(name))
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


@each_service
def test_secrets_come_from_files_that_git_ignores(name: str) -> None:
    for secret in SERVICES[name].get("secrets", ()):
        file = COMPOSE["secrets"][secret]["file"]
        assert file == f"./{SECRETS}/{secret}"
    environment = SERVICES[name].get("environment", {})
    for variable, value in environment.items():
        if re.search(r"PASSWORD|TOKEN|SECRET|KEY", variable):
            assert value.startswith("/run/secrets/"), variable
    ignored = (ROOT / SECRETS / ".gitignore").read_text().splitlines()
    assert "*" in ignored
    assert {line for line in ignored if line.startswith("!")} == {"!.gitignore"}


def test_a_secret_that_is_read_is_handed_over() -> None:
    webhook = next(
        receiver["webhook_configs"][0]
        for receiver in configuration("rules/alertmanager.yml")["receivers"]
        if receiver["name"] == "remediator"
    )
    token = webhook["http_config"]["authorization"]["credentials_file"]
    fleet = load(ROOT / "deploy" / "compose" / "fleet.yml")
    assert fleet.remediator is not None
    assert token == str(fleet.remediator.token_file)
    for name in ("alertmanager", "remediator"):
        assert Path(token).name in SERVICES[name]["secrets"]


def test_no_restart_policy_is_a_second_watchdog_of_a_model_server() -> None:
    assert SERVICES["vllm"]["restart"] == "no"
    assert SERVICES["vllm"]["profiles"] == ["demo"]


@pytest.mark.parametrize(
    ("name", "port"),
    [
        ("exporter", exporter.serve.PORT),
        ("remediator", remediator.__main__.PORT),
        ("gateway", gateway.start.PORT),
    ],
)
def test_a_program_listens_where_it_is_published_and_reads_the_mounted_fleet(
    name: str, port: int
) -> None:
    program, *given = SERVICES[name]["command"]
    arguments = flags(program, "", port=port).parse_args(given)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert program in scripts
    assert arguments.listen.port in published(name).values()
    targets = {target: source for source, target, _ in mounts(name)}
    assert targets[str(arguments.config_file)] == "./deploy/compose/fleet.yml"
    exposed = re.findall(r"^EXPOSE (.+)$", DOCKERFILE, re.MULTILINE)[0].split()
    assert str(arguments.listen.port) in exposed


def test_prometheus_scrapes_and_alerts_what_runs_here() -> None:
    config = configuration("rules/prometheus.yml")
    jobs = {
        job["job_name"]: target
        for job in config["scrape_configs"]
        for static in job["static_configs"]
        for target in static["targets"]
    }
    assert set(jobs) == {"vllm-exporter", "vllm-remediator", "vllm-gateway"}
    assert all(listens_at(target) for target in jobs.values())
    for group in config["alerting"]["alertmanagers"]:
        assert all(listens_at(t) for static in group["static_configs"] for t in static["targets"])


def test_prometheus_finds_the_rules_beside_its_configuration() -> None:
    targets = {target: source for source, target, _ in mounts("prometheus")}
    flags = SERVICES["prometheus"]["command"]
    file = next(f.split("=")[1] for f in flags if f.startswith("--config.file"))
    assert targets[file] == "./rules/prometheus.yml"
    for rules in configuration("rules/prometheus.yml")["rule_files"]:
        assert targets[str(Path(file).parent / rules)] == f"./rules/{rules}"


def test_alertmanager_and_grafana_reach_what_runs_here() -> None:
    receivers = configuration("rules/alertmanager.yml")["receivers"]
    webhook = next(r for r in receivers if r["name"] == "remediator")["webhook_configs"][0]
    assert listens_at(webhook["url"])
    provisioned = configuration("grafana/provisioning/datasources/prometheus.yml")
    assert all(listens_at(source["url"]) for source in provisioned["datasources"])


@pytest.mark.parametrize(
    ("name", "flag"),
    [("prometheus", "--storage.tsdb.path"), ("alertmanager", "--storage.path")],
)
def test_what_is_remembered_is_on_a_volume(name: str, flag: str) -> None:
    path = next(f.split("=")[1] for f in SERVICES[name]["command"] if f.startswith(flag + "="))
    assert {t: s for s, t, _ in mounts(name)}[path] in COMPOSE["volumes"]


def test_the_fleet_is_that_of_the_stack_and_restarts_nothing_unasked() -> None:
    fleet = load(ROOT / "deploy" / "compose" / "fleet.yml")
    assert fleet.remediator is not None
    assert fleet.remediator.mode is Mode.SHADOW
    assert listens_at(fleet.remediator.alertmanager)
    assert all(listens_at(backend.url) for backend in fleet.backends)
    database = Path(fleet.remediator.database.removeprefix("sqlite:///"))
    volumes = {target: source for source, target, _ in mounts("remediator")}
    assert volumes[str(database.parent)] in COMPOSE["volumes"]
    assert str(database.parent) in DOCKERFILE


def test_the_gateway_is_known_to_the_remediator_and_keeps_what_it_writes() -> None:
    fleet = load(ROOT / "deploy" / "compose" / "fleet.yml")
    assert fleet.gateway is not None
    assert fleet.remediator is not None
    assert fleet.gateway.exporter is not None
    assert listens_at(fleet.gateway.exporter)
    assert all(listens_at(url) for backend in fleet.backends for url in backend.gateways)
    token = fleet.gateway.admin_token_file
    assert token == fleet.remediator.gateway_token_file
    for name in ("gateway", "remediator"):
        assert token.name in SERVICES[name]["secrets"]
    volumes = {target: source for source, target, _ in mounts("gateway")}
    written = [
        Path(fleet.gateway.database.removeprefix("sqlite:///")),
        fleet.gateway.journal_folder,
        fleet.gateway.resume_key_file,
    ]
    for file in written:
        assert file is not None
        assert volumes[str(file.parent)] in COMPOSE["volumes"]


def test_doctor_has_nothing_against_the_gateway() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "doctor", "docker-compose.yml", "deploy"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_simulated_server_is_started_as_its_program_wants_it() -> None:
    command = SERVICES["vllm"]["command"]
    assert command[:3] == ["python", "-m", "demo.vllm"]
    wanted = settings(command[3:])
    assert wanted.host == "0.0.0.0"
    assert wanted.port in published("vllm").values()


def test_the_image_is_built_of_hashed_parts_and_runs_as_nobody_in_particular() -> None:
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)
    assert stages == ["python:3.12-slim"] * 2
    assert "--require-hashes" in DOCKERFILE
    assert re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE) == [("10001", "10001")]
    assert "HEALTHCHECK" not in DOCKERFILE
    assert "ENTRYPOINT" not in DOCKERFILE


def test_the_build_context_holds_the_wheel_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    kept = {line[1:] for line in lines if line.startswith("!")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["setuptools"]["packages"]["find"]["include"]
    needed = {package.rstrip("*") for package in packages} | {
        "pyproject.toml",
        "requirements.lock",
        project["project"]["readme"],
        *project["project"]["license-files"],
    }
    assert needed <= kept
    assert kept - needed <= {"gateway"}
