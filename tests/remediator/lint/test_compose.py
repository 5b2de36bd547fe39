"""Compose files: what restarts a container, and what does not."""

import pytest

from tests.remediator.lint.judging import judged, rules

CHECK = "healthcheck: {test: curl -f localhost:8000/health}"


def of(server: str, *others: str) -> list[str]:
    lines = ["services:", "  a:", "    image: vllm/vllm-openai:v1", f"    {server}"]
    for number, other in enumerate(others):
        lines += [f"  other{number}: {other}"]
    return rules("compose.yml", "\n".join(lines))


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("restart: always", ["compose-restart"]),
        ("restart: no", []),
        ('restart: "no"', []),
        (CHECK, []),
        ("deploy: {restart_policy: {condition: any}}", []),
        (f"{CHECK}\n    deploy: {{resources: {{}}, replicas: 2}}", []),
        (f"{CHECK}\n    deploy: {{placement: {{}}}}", ["compose-swarm"]),
        (
            "healthcheck: {disable: true, test: curl}\n    deploy: {placement: {}}",
            [],
        ),
        ('healthcheck: {test: ["NONE"]}\n    deploy: {placement: {}}', []),
        ("labels: {autoheal: true}", ["compose-autoheal"]),
        ("labels: [autoheal=false]", []),
        ("labels: [deunhealth.restart.on.unhealthy=true]", ["compose-autoheal"]),
    ],
)
def test_a_service_is_judged_by_what_restarts_it(server: str, expected: list[str]) -> None:
    assert of(server) == expected


@pytest.mark.parametrize(
    ("server", "healer", "expected"),
    [
        (CHECK, "{image: willfarrell/autoheal}", []),
        (
            CHECK,
            "{image: willfarrell/autoheal, environment: {AUTOHEAL_CONTAINER_LABEL: all}}",
            ["compose-autoheal"],
        ),
        (
            "restart: no",
            "{image: willfarrell/autoheal, environment: {AUTOHEAL_CONTAINER_LABEL: all}}",
            [],
        ),
        (
            "labels: {mend: true}",
            "{image: willfarrell/autoheal, environment: [AUTOHEAL_CONTAINER_LABEL=mend]}",
            ["compose-autoheal"],
        ),
        ("restart: no", "{image: containrrr/watchtower}", ["compose-updater"]),
        (
            "labels: {com.centurylinklabs.watchtower.enable: false}",
            "{image: containrrr/watchtower}",
            [],
        ),
        (
            "restart: no",
            "{image: containrrr/watchtower, environment: {WATCHTOWER_LABEL_ENABLE: true}}",
            [],
        ),
        (
            "restart: no",
            "{image: containrrr/watchtower, environment: {WATCHTOWER_MONITOR_ONLY: true}}",
            [],
        ),
    ],
)
def test_a_healer_restarts_what_its_labels_say(
    server: str, healer: str, expected: list[str]
) -> None:
    assert of(server, healer) == expected


def test_an_image_named_by_its_digest_is_never_updated() -> None:
    digest = "@sha256:" + "0" * 64
    text = (
        f"services: {{a: {{image: vllm/vllm-openai{digest}}}, b: {{image: containrrr/watchtower}}}}"
    )
    assert rules("compose.yml", text.replace("services:", "services:\n ")) == []


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ("", "retries 3 x interval 30 s = 90 s"),
        ("interval: 1m30s, retries: 2", "retries 2 x interval 90 s = 180 s"),
        ("interval: 500ms", "retries 3 x interval 0.5 s = 1.5 s"),
        ("interval: $I", "retries 3 x interval $I"),
        ("interval: 10s, retries: $R", "retries $R x interval 10s"),
    ],
)
def test_the_time_until_a_restart_is_counted_with_dockers_defaults(
    settings: str, count: str
) -> None:
    server = "services:\n  a:\n    image: vllm/vllm-openai\n    labels: [autoheal=true]\n"
    text = f"{server}    healthcheck: {{test: x, {settings}}}\n"
    (finding,) = judged("compose.yml", text)
    assert finding.why.endswith(count)


def test_services_that_are_no_services_are_passed_over() -> None:
    assert rules("compose.yml", "services:\n  a: text\n  b:\n  c: [1]\n") == []
