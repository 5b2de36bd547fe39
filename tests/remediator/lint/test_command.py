"""What a command line does to a vLLM server."""

import pytest

from remediator.lint.command import Deeds
from remediator.lint.scheduled import shown

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("text", "restarts"),
    [
        ("systemctl restart vllm.service", "systemctl restart vllm.service"),
        (
            "sudo /bin/systemctl --user try-restart vllm@a",
            "/bin/systemctl --user try-restart vllm@a",
        ),
        ("service vllm restart", "service vllm restart"),
        ("cd /srv && docker compose restart vllm", "docker compose restart vllm"),
        ("docker-compose -f vllm.yml up -d --force-recreate",) * 2,
        ("docker compose -f vllm.yml down; true", "docker compose -f vllm.yml down"),
        ("podman kill -s TERM vllm", "podman kill -s TERM vllm"),
        ("kubectl rollout restart deploy/vllm", "kubectl rollout restart deploy/vllm"),
        ("kubectl delete pod/vllm-0 --now", "kubectl delete pod/vllm-0 --now"),
        ("oc scale deployment vllm --replicas 0", "oc scale deployment vllm --replicas 0"),
        ("pkill -f vllm.entrypoints", "pkill -f vllm.entrypoints"),
        ("pgrep -f vllm | xargs -r kill", "kill"),
        ("if ! pgrep vllm; then kill 4711; fi", "kill 4711"),
        ("ssh gpu-a 'systemctl restart vllm'", "systemctl restart vllm"),
        ("sh -c 'supervisorctl restart vllm'", "supervisorctl restart vllm"),
        (f"curl http://gpu:8000{CHAT} || systemctl restart model", "systemctl restart model"),
        # No restart, or of something else.
        ("systemctl status vllm", ""),
        ("systemctl restart nginx", ""),
        ("systemctl restart vllm-exporter", ""),
        ("docker restart vllm-router", ""),
        ("systemctl restart nginx; tar c /etc/vllm", ""),
        ("docker logs vllm", ""),
        ("kubectl get pods -l app=vllm", ""),
        ("kubectl delete configmap vllm", ""),
        ("kill -0 $(cat /run/vllm.pid)", ""),
        ("echo vllm", ""),
    ],
)
def test_a_restart_is_told_with_its_command(text: str, restarts: str) -> None:
    assert Deeds.of(text).restarts == restarts


@pytest.mark.parametrize(
    ("text", "known", "restarts"),
    [
        ("systemctl restart llm", {"llm"}, True),
        ("systemctl restart llm.service", {"llm"}, True),
        ("systemctl restart llm@gpu-a", {"llm@"}, True),
        ("kubectl rollout restart deployment/llama", {"llama"}, True),
        ("kubectl rollout restart deployment/llama-web", {"llama"}, False),
        ("kubectl delete pod -l app=web", {"app"}, False),
        ("systemctl restart llm", set(), False),
    ],
)
def test_a_server_goes_by_the_name_it_has_elsewhere(
    text: str, known: set[str], *, restarts: bool
) -> None:
    assert bool(Deeds.of(text, frozenset(known)).restarts) == restarts


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        (f"curl -s http://gpu-a:8000{CHAT}", CHAT),
        (f"curl -s localhost{CHAT}", CHAT),
        (f"curl -s http://10.1.2.3{CHAT}", CHAT),
        (f"curl -s http://models.svc.cluster.local{CHAT}", CHAT),
        (f"curl -s $URL{CHAT}", CHAT),
        (f"curl -s https://vllm.example.com{CHAT}", CHAT),
        (f"curl -s http://llm.example.com:8000{CHAT}", CHAT),
        ("wget -qO- http://[::1]:8000/generate --post-data x", "/generate"),
        ("python -c 'client.chat.completions.create(model=1)'", "chat.completions.create"),
        # Somebody else's model, or no request.
        (f"curl -s https://api.openai.com{CHAT}", ""),
        (f"curl -s https://me.openai.azure.com/{CHAT}", ""),
        (f"curl -s https://llm.example.com{CHAT}", ""),
        ("curl -s http://gpu-a:8000/v1/models", ""),
        ("/opt/generate-report.sh", ""),
    ],
)
def test_a_request_to_a_model_of_ones_own_is_seen(text: str, asks: str) -> None:
    assert Deeds.of(text).asks == asks


@pytest.mark.parametrize(
    ("text", "unguarded"),
    [
        ("vllm-exporter check http://a || systemctl restart vllm", True),
        ("vllm-exporter check --liveness http://a || systemctl restart vllm", False),
        ("vllm-exporter check http://a; [ $? -ne 1 ] || systemctl restart vllm", False),
    ],
)
def test_a_check_is_seen_and_whether_its_status_is_read(text: str, *, unguarded: bool) -> None:
    deeds = Deeds.of(text)
    assert (deeds.checks, deeds.unguarded) == (True, unguarded)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("curl  -H 'Authorization: Bearer sk-1'\n x", "curl -H 'Authorization: Bearer *** x"),
        ("curl http://me:secret@h/health", "curl http://***@h/health"),
        ("curl -u me:secret h", "curl -u *** h"),
        ("x" * 100, "x" * 79 + "…"),
    ],
)
def test_a_command_is_shown_short_and_without_secrets(command: str, text: str) -> None:
    assert shown(command) == text
