"""What is a vLLM server, and what only has the name in it."""

import pytest

from fleet.recognise import Certainty, Described, names_vllm

NO, POSSIBLE, SURE = Certainty.NO, Certainty.POSSIBLE, Certainty.SURE


@pytest.mark.parametrize(
    ("described", "certainty"),
    [
        (Described("a", "vllm/vllm-openai:v0.11.0"), SURE),
        (Described("a", "registry.internal/mirror/vllm:1"), SURE),
        (Described("a", "python:3.12", "vllm serve meta/llama"), SURE),
        (Described("a", "python:3.12", "python -m vllm.entrypoints.openai.api_server"), SURE),
        (Described("a", "acme/models:3", "--model x --gpu-memory-utilization 0.9"), SURE),
        (Described("vllm", "${IMAGE}"), POSSIBLE),
        (Described("vllm"), POSSIBLE),
        (Described("a", "{{ .Values.image }}", ports="8000", looks_at="/health"), POSSIBLE),
        (Described("a", "${IMAGE}", "--port 8000", looks_at="curl h:8000/health"), POSSIBLE),
        (Described("a", "${IMAGE}", ports="8000"), NO),
        (Described("a", "${IMAGE}", ports="18000", looks_at="/health"), NO),
        (Described("a", "nginx:1.27", ports="8000", looks_at="/health"), NO),
        (Described("vllm-proxy", "nginx:1.27"), NO),
        (Described("vllm", "vllm-lifeguard:0.1.0", "python -m demo.vllm"), NO),
        (Described("a", "lmcache/lmstack-router", "vllm-router --port 8000"), NO),
        (Described("vllm-exporter"), NO),
        (Described("bench", "vllm/vllm-openai:v0.11.0", "vllm bench serve --model x"), NO),
        (Described("db", "postgres:17"), NO),
    ],
)
def test_a_server_is_recognised(described: Described, certainty: Certainty) -> None:
    assert described.certainty is certainty


def test_a_sentence_says_where_it_is_not_sure() -> None:
    assert Described("a", "vllm/vllm-openai").subject == "a: "
    assert Described("vllm", "${I}").subject == "vllm (possibly vLLM, image ${I}): "
    assert Described("vllm").subject == "vllm (possibly vLLM, image not named here): "


def test_programs_around_vllm_are_not_vllm() -> None:
    assert not names_vllm("vllm-exporter vllm-remediator vllm_router vllm-lifeguard")
    assert names_vllm("vllm-exporter and vllm@gpu-a")
