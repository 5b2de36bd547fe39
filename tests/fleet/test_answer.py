"""The short request, over real sockets."""

import pytest

from fleet.answer import Answer, Result, ask
from fleet.backend import Backend, Kind
from fleet.fetch import Fetcher
from tests.fleet.listeners import Vllm, closed_port


def asked(fetcher: Fetcher, engine: str | None = None, timeout: float = 5.0) -> Answer:
    return ask(fetcher, engine, timeout=timeout)


def test_one_token_is_asked_of_the_served_model(vllm: Vllm, fetcher: Fetcher) -> None:
    answer = asked(fetcher)
    assert answer.result is Result.ANSWERED
    assert answer.seconds < 5.0
    request = vllm.requests[-1]
    assert request.path == "/v1/completions"
    assert b'"max_tokens": 1' in request.body
    assert b'"model": "m"' in request.body
    assert "x-data-parallel-rank" not in request.headers


def test_an_engine_is_named_by_its_rank(vllm: Vllm, fetcher: Fetcher) -> None:
    asked(fetcher, "1")
    assert vllm.requests[-1].headers["x-data-parallel-rank"] == "1"


def test_a_request_that_hangs_is_unanswered(vllm: Vllm, fetcher: Fetcher) -> None:
    vllm.hold.clear()
    answer = asked(fetcher, timeout=0.3)
    vllm.hold.set()
    assert answer.result is Result.UNANSWERED
    assert answer.why == "not answered within 0.3 s"


@pytest.mark.parametrize(
    "status", ["401 Unauthorized", "404 Not Found", "429 Too Many", "500 Oops", "503 Draining"]
)
def test_an_error_is_neither_an_answer_nor_silence(
    status: str, vllm: Vllm, fetcher: Fetcher
) -> None:
    vllm.completions = status
    answer = asked(fetcher)
    assert answer.result is Result.ERROR
    assert status[:3] in answer.why


@pytest.mark.parametrize("completion", ["", "<html>", "{}", '{"choices": []}', "[]", "[" * 100_000])
def test_something_else_is_no_answer(completion: str, vllm: Vllm, fetcher: Fetcher) -> None:
    vllm.completion = completion
    assert asked(fetcher).result is Result.ERROR


@pytest.mark.parametrize(
    "models", ["", "{}", '{"data": []}', '{"data": [{}]}', '{"data": [{"id": 7}]}', "[" * 100_000]
)
def test_without_a_model_nothing_is_asked(models: str, vllm: Vllm, fetcher: Fetcher) -> None:
    vllm.models = models
    assert asked(fetcher).result is Result.ERROR
    assert vllm.paths()["/v1/completions"] == 0


def test_a_pooling_model_is_asked_for_an_embedding(vllm: Vllm, fetcher: Fetcher) -> None:
    vllm.pooling = True
    vllm.completion = '{"data": [{"embedding": [0.1]}]}'
    answer = asked(fetcher, "1")
    assert (answer.result, answer.pooling) == (Result.ANSWERED, True)
    assert vllm.requests[-1].path == "/v1/embeddings"
    assert b'"input": "1"' in vllm.requests[-1].body
    assert vllm.requests[-1].headers["x-data-parallel-rank"] == "1"


def test_a_pooling_model_that_hangs_is_unanswered(vllm: Vllm, fetcher: Fetcher) -> None:
    vllm.pooling = True
    vllm.hold.clear()
    answer = asked(fetcher, timeout=0.3)
    vllm.hold.set()
    assert answer.result is Result.UNANSWERED


def test_what_is_known_to_be_answered_is_asked_first(vllm: Vllm, fetcher: Fetcher) -> None:
    vllm.pooling = True
    vllm.completion = '{"data": [{"embedding": [0.1]}]}'
    ask(fetcher, None, timeout=5.0, pooling=True)
    assert vllm.paths()["/v1/completions"] == 0
    vllm.pooling, vllm.completion = False, '{"choices": [{"text": "a"}]}'
    answer = ask(fetcher, None, timeout=5.0, pooling=True)
    assert (answer.result, answer.pooling) == (Result.ANSWERED, False)


def test_a_server_that_knows_neither_kind_says_why_of_the_first(
    vllm: Vllm, fetcher: Fetcher
) -> None:
    vllm.completions = "404 Not Found"
    answer = asked(fetcher)
    assert answer.result is Result.ERROR
    assert answer.why.startswith("/v1/completions answered HTTP 404")


def test_a_refused_connection_is_an_error() -> None:
    with closed_port() as port:
        backend = Backend("gpu-a", f"http://127.0.0.1:{port}", Kind.VLLM, 60.0, 600.0)
        assert asked(Fetcher(backend, "test")).result is Result.ERROR
