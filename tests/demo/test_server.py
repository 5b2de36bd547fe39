"""The server over real sockets, in this process."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection, IncompleteRead
from typing import Any
from urllib.parse import urlsplit

import pytest

from demo.vllm.limits import Limits
from demo.vllm.server import AFTER_DEATH_SECONDS, Ending, Server
from demo.vllm.settings import Settings
from demo.vllm.tokens import decode
from tests.demo.client import Client, eventually
from tests.demo.recorded import engine_value, series

FAST = Limits(steps_per_second=200, prefill_tokens_per_second=100_000)
WANTED = "/metrics/?name[]=vllm:num_requests_running&name[]=process_start_time_seconds"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(Settings(port=0, limits=FAST)) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.url)


@pytest.fixture
def pair() -> Iterator[Client]:
    """A server with two engines."""
    with Server(Settings(port=0, limits=FAST, data_parallel_size=2)) as running:
        yield Client(running.url)


def shown(client: Client, name: str = "num_requests_running", engine: str = "0") -> float | None:
    return engine_value(client.get("/metrics").text, name, engine)


def engine_series(client: Client) -> dict[Any, float]:
    return {
        key: value
        for key, value in series(client.get("/metrics").text).items()
        if key[0].startswith("vllm:")
    }


def received(client: Client) -> dict[tuple[str, str], int]:
    requests = client.get("/sim/state").json["requests"]
    return {(each["path"], each["user_agent"]): each["count"] for each in requests}


class TestGeneration:
    def test_a_completion_as_a_stream_and_as_one_body_is_the_same_text(
        self, client: Client
    ) -> None:
        whole = client.post("/v1/completions", {"prompt": "hi", "max_tokens": 20}).json
        with client.stream(body={"max_tokens": 20}) as stream:
            *frames, done = stream.rest()
        texts = [json.loads(frame)["choices"][0]["text"] for frame in frames]
        assert done == "[DONE]"
        assert len(texts) == 20
        assert "".join(texts) == whole["choices"][0]["text"]
        assert json.loads(frames[-1])["choices"][0]["finish_reason"] == "length"
        assert whole["usage"] == {
            "prompt_tokens": 2,
            "completion_tokens": 20,
            "total_tokens": 22,
        }

    def test_chat_opens_with_a_role_and_closes_with_the_usage(self, client: Client) -> None:
        body = {
            "messages": [{"role": "user", "content": "hi"}],
            "max_tokens": 3,
            "stream_options": {"include_usage": True},
        }
        with client.stream("/v1/chat/completions", body) as stream:
            role, *tokens, usage, done = stream.rest()
        assert json.loads(role)["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert len(tokens) == 3
        assert json.loads(usage)["choices"] == []
        assert json.loads(usage)["usage"]["completion_tokens"] == 3
        assert done == "[DONE]"

    def test_token_ids_and_usage_on_every_frame(self, client: Client) -> None:
        body = {
            "prompt": [1, 2, 3],
            "max_tokens": 4,
            "return_token_ids": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        with client.stream(body=body) as stream:
            frames = [json.loads(each) for each in stream.rest()[:4]]
        assert frames[0]["choices"][0]["prompt_token_ids"] == [1, 2, 3]
        assert [each["usage"]["completion_tokens"] for each in frames] == [1, 2, 3, 4]
        for each in frames:
            choice = each["choices"][0]
            assert decode(choice["token_ids"]) == choice["text"]

    def test_chat_goes_on_from_ids(self, client: Client) -> None:
        def ids(prompt: list[int], tokens: int) -> list[int]:
            body = {
                "messages": [{"role": "user", "content": "hi"}],
                "kv_transfer_params": {"prompt_token_ids": prompt} if prompt else None,
                "max_tokens": tokens,
                "return_token_ids": True,
            }
            answer = client.post("/v1/chat/completions", body).json
            found = answer["prompt_token_ids"] + answer["choices"][0]["token_ids"]
            return [int(token) for token in found]

        whole = ids([], 12)
        assert ids(whole[:-5], 5) == whole

    def test_a_stop_token_is_named_and_its_text_left_out(self, client: Client) -> None:
        body = {"prompt": "hi", "max_tokens": 9, "return_token_ids": True}
        free = client.post("/v1/completions", body).json["choices"][0]
        stop = free["token_ids"][4]
        found = client.post("/v1/completions", body | {"stop_token_ids": [stop]}).json
        choice = found["choices"][0]
        cut = free["token_ids"].index(stop)
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
        assert choice["text"] == decode(free["token_ids"][:cut])

    def test_embeddings_depend_on_the_text_only(self, client: Client) -> None:
        answer = client.post("/v1/embeddings", {"input": ["a", "b", "a"]}).json
        first, other, same = (each["embedding"] for each in answer["data"])
        assert first == same != other
        assert answer["usage"]["prompt_tokens"] == 3

    def test_requests_follow_each_other_on_one_connection(self, server: Server) -> None:
        connection = HTTPConnection(urlsplit(server.url).netloc, timeout=10)
        try:
            for stream in (True, False, True):
                body = json.dumps({"prompt": "hi", "max_tokens": 2, "stream": stream})
                connection.request("POST", "/v1/completions", body)
                with connection.getresponse() as response:
                    assert response.status == 200
                    assert response.read()
        finally:
            connection.close()

    @pytest.mark.parametrize(
        ("path", "body", "status", "says"),
        [
            ("/v1/completions", "{", 400, "the body is not JSON"),
            ("/v1/completions", [], 400, "must be a JSON object, got []"),
            ("/v1/completions", {}, 400, "prompt must be text or token ids"),
            ("/v1/completions", {"prompt": ""}, 400, "prompt must be text or token ids"),
            ("/v1/completions", {"prompt": [1, "a"]}, 400, "prompt must be text"),
            ("/v1/completions", {"prompt": ["a", "b"]}, 400, "takes one at a time"),
            ("/v1/completions", {"prompt": [9999]}, 400, "Token id 9999 is out of vocabulary"),
            ("/v1/completions", {"prompt": "a", "max_tokens": 0}, 400, "max_tokens"),
            ("/v1/completions", {"prompt": "a", "max_tokens": 32768}, 400, "32768 tokens"),
            ("/v1/completions", {"prompt": "a", "n": 2}, 400, "n: this simulated server"),
            ("/v1/completions", {"prompt": "a", "stream": 1}, 400, "stream must be true or"),
            ("/v1/completions", {"prompt": "a", "stream_options": {"x": 1}}, 400, "stream=True"),
            ("/v1/completions", {"prompt": "a", "stream_options": 1}, 400, "must be an object"),
            ("/v1/completions", {"prompt": "a", "model": "x"}, 404, "The model `x` does not"),
            ("/v1/chat/completions", {"messages": []}, 400, "messages must be a list"),
            ("/v1/chat/completions", {"messages": [1]}, 400, "messages[0] must be an object"),
            ("/v1/embeddings", {}, 400, "input must be text or token ids"),
            ("/v1/nothing", {}, 404, "Not Found"),
            ("/v1/models", {}, 405, "Method Not Allowed"),
        ],
    )
    def test_errors_as_vllm_says_them(
        self, client: Client, path: str, body: object, status: int, says: str
    ) -> None:
        answer = client.post(path, body)
        assert answer.status == status
        assert says in answer.json["error"]["message"]
        assert answer.json["error"]["code"] == status


class TestSlots:
    def test_four_run_and_the_others_wait(self, client: Client) -> None:
        with ExitStack() as stack:
            for _ in range(7):
                stack.enter_context(client.stream())
            eventually(lambda: shown(client, "num_requests_waiting") == 3, "3 waiting")
            assert shown(client) == 4

    def test_fact_24_a_client_that_hangs_up_frees_its_slot(self, client: Client) -> None:
        with client.stream() as stream:
            stream.next()
            assert shown(client) == 1
        eventually(lambda: shown(client) == 0, "0 running", seconds=2)

    def test_a_queued_client_that_hangs_up_leaves_the_queue(self, client: Client) -> None:
        client.post("/sim/batch", {"requests": 4, "max_tokens": 20_000})
        with client.stream():
            eventually(lambda: shown(client, "num_requests_waiting") == 1, "1 waiting")
        eventually(lambda: shown(client, "num_requests_waiting") == 0, "0 waiting")

    def test_a_client_that_did_not_stream_can_hang_up_too(self, server: Server) -> None:
        client = Client(server.url)
        connection = HTTPConnection(urlsplit(server.url).netloc, timeout=10)
        connection.request("POST", "/v1/completions", '{"prompt": "hi", "max_tokens": 9000}')
        eventually(lambda: shown(client) == 1, "1 running")
        connection.close()
        eventually(lambda: shown(client) == 0, "0 running")


class TestFreeze:
    def test_fact_4_streams_hang_and_everything_else_looks_well(self, client: Client) -> None:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(client.stream()).next()
            client.post("/sim/freeze")
            before = engine_series(client)
            assert shown(client) == 3
            with client.stream() as hanging, ThreadPoolExecutor(1) as pool:
                token = pool.submit(hanging.next)
                eventually(lambda: unseen(client) == 1, "a new request at the door")
                assert client.get("/health").status == 200
                assert client.get("/v1/models").status == 200
                assert engine_series(client) == before
                assert not token.done()
                client.post("/sim/thaw")
                assert token.result(timeout=10)
                assert engine_series(client) != before

    def test_fact_3_nothing_moves_when_a_client_hangs_up(self, client: Client) -> None:
        with client.stream() as stream:
            stream.next()
            client.post("/sim/freeze")
            before = engine_series(client)
        eventually(lambda: unseen(client) == 1, "the hang-up has arrived")
        assert engine_series(client) == before
        client.post("/sim/thaw")
        eventually(lambda: shown(client) == 0, "0 running")

    def test_fact_5_frozen_while_idle(self, client: Client) -> None:
        client.post("/sim/freeze")
        with client.stream():
            eventually(lambda: unseen(client) == 1, "the request has arrived")
            assert shown(client) == 0
            assert shown(client, "num_requests_waiting") == 0
            assert client.get("/health").status == 200

    def test_fact_17_one_engine_of_two(self, pair: Client) -> None:
        with (
            pair.stream(X_data_parallel_rank="0") as frozen,
            pair.stream(X_data_parallel_rank="1") as going_on,
        ):
            frozen.next()
            going_on.next()
            pair.post("/sim/freeze", {"engine": 0})
            name = "generation_tokens_total"
            before = [shown(pair, name, engine) or 0 for engine in "01"]
            eventually(lambda: (shown(pair, name, "1") or 0) > before[1], "engine 1 goes on")
            assert shown(pair, name, "0") == before[0]
            assert going_on.next()

    def test_requests_go_to_the_less_busy_engine(self, pair: Client) -> None:
        pair.post("/sim/batch", {"requests": 4, "max_tokens": 9000})
        eventually(lambda: [shown(pair, engine=e) for e in "01"] == [2, 2], "2 running on each")

    def test_a_rank_that_is_not_there(self, pair: Client) -> None:
        answer = pair.post("/v1/completions", {"prompt": "a"}, X_data_parallel_rank="2")
        assert answer.status == 400
        assert "data_parallel_rank 2 is out of range [0, 2)." in answer.text


def unseen(client: Client) -> int:
    return int(client.get("/sim/state").json["engines"][0]["unseen"])


class TestDeath:
    def test_fact_21_streams_end_with_an_error_and_done_then_the_port_closes(
        self, server: Server, client: Client
    ) -> None:
        with client.stream() as stream:
            stream.next()
            died = time.monotonic()
            assert client.post("/sim/die").status == 200
            *_, error, done = stream.rest()
        assert json.loads(error)["error"]["code"] == 500
        assert done == "[DONE]"
        assert client.get("/health").status == 503
        assert client.get("/metrics").status == 200
        assert client.post("/v1/completions", {"prompt": "a"}).status == 500
        assert server.wait() is Ending.ENGINE_DEAD
        assert time.monotonic() - died >= AFTER_DEATH_SECONDS
        with pytest.raises(ConnectionRefusedError):
            client.get("/health")

    def test_a_client_that_did_not_stream_gets_a_500(self, client: Client) -> None:
        client.post("/sim/freeze")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.post, "/v1/completions", {"prompt": "a"})
            eventually(lambda: unseen(client) == 1, "the request has arrived")
            client.post("/sim/die")
            assert waiting.result().status == 500


class TestStop:
    def test_open_streams_are_cut_without_a_closing_frame(self) -> None:
        with Server(Settings(port=0, limits=FAST)) as server, Client(server.url).stream() as stream:
            stream.next()
            server.stop()
            with pytest.raises(IncompleteRead):
                stream.response.read()

    def test_nothing_is_left_behind(self) -> None:
        before = threading.active_count()
        with Server(Settings(port=0, limits=FAST)) as server:
            client = Client(server.url)
            idle = HTTPConnection(urlsplit(server.url).netloc, timeout=10)
            idle.connect()
            client.get("/health")
            client.post("/sim/mute", {"seconds": 100})
        idle.close()
        eventually(lambda: threading.active_count() <= before, "all threads have ended")
        with pytest.raises(ConnectionRefusedError):
            client.get("/health")

    def test_a_taken_port_is_an_error(self, server: Server) -> None:
        with pytest.raises(OSError, match="in use"):
            Server(Settings(port=server.port))


class TestMetrics:
    def test_fact_19_the_filter_needs_the_slash(self, client: Client) -> None:
        names = {name for name, _ in series(client.get(WANTED).text)}
        assert names == {"vllm:num_requests_running", "process_start_time_seconds"}
        whole = client.get("/metrics").text
        assert len(client.get(WANTED.replace("/?", "?")).text) > 40_000
        assert len(client.get("/metrics/").text) == pytest.approx(len(whole), abs=200)

    def test_fact_19_the_filtered_page_is_empty_in_multiprocess_mode(self) -> None:
        with Server(Settings(port=0, limits=FAST, multiprocess=True)) as server:
            client = Client(server.url)
            assert client.get("/metrics/?name[]=vllm:generation_tokens_total") == (200, "")
            assert len(client.get("/metrics/").text) > 30_000

    def test_answers_are_counted_but_not_those_to_a_watchdog(self, client: Client) -> None:
        client.post("/v1/completions", {"prompt": "a"})
        client.get("/v1/nothing")
        client.get("/health")
        counted = {
            (dict(labels)["handler"], dict(labels)["status"]): value
            for (name, labels), value in series(client.get("/metrics").text).items()
            if name == "http_requests_total"
        }
        assert counted == {("/v1/completions", "2xx"): 1, ("none", "4xx"): 1}

    def test_fact_1_a_long_prefill_over_the_wire(self, client: Client) -> None:
        client.post("/sim/slow", {"steps_per_second": 20})
        client.post("/sim/prefill", {"tokens": 30_000})
        usages: set[float | None] = set()

        def moving() -> bool:
            page = client.get("/metrics").text
            if engine_value(page, "prompt_tokens_total"):
                return True
            assert engine_value(page, "iteration_tokens_total_count") == 0
            usages.add(engine_value(page, "kv_cache_usage_perc"))
            return False

        eventually(moving, "the first token")
        assert len(usages) > 5


class TestSim:
    def test_every_request_is_counted_by_path_and_user_agent(self, server: Server) -> None:
        watchdog, user = Client(server.url, "watchdog"), Client(server.url, "user")
        for _ in range(3):
            watchdog.get("/metrics")
        watchdog.get(WANTED)
        user.post("/v1/completions", {"prompt": "a"})
        user.post("/v1/completions", "not JSON")
        user.get("/v1/completions")
        user.get("/health", method="PUT")
        assert received(user) == {
            ("/metrics", "watchdog"): 3,
            ("/metrics/", "watchdog"): 1,
            ("/v1/completions", "user"): 3,
            ("/health", "user"): 1,
            ("/sim/state", "user"): 1,
        }

    def test_a_batch_runs_without_anybody_connected(self, client: Client) -> None:
        client.post("/sim/batch", {"requests": 6, "max_tokens": 4})
        eventually(lambda: shown(client, "generation_tokens_total") == 24, "24 tokens")
        eventually(lambda: shown(client) == 0, "0 running")

    def test_batches_do_not_find_each_other_in_the_cache(self, client: Client) -> None:
        client.post("/sim/batch", {"requests": 3, "max_tokens": 1, "prompt_tokens": 300})
        eventually(lambda: shown(client, "prompt_tokens_total") == 900, "3 prompts")
        assert shown(client, "prefix_cache_hits_total") == 0

    def test_slow_and_back(self, client: Client) -> None:
        state = client.post("/sim/slow", {"steps_per_second": 0.5}).json
        assert state["engines"][0]["steps_per_second"] == 0.5
        with client.stream() as stream:
            client.post("/sim/slow", {"steps_per_second": 500})
            assert stream.next()

    def test_muted_nothing_but_sim_answers_and_the_engine_goes_on(self, client: Client) -> None:
        client.post("/sim/batch", {"requests": 1, "max_tokens": 9000})
        client.post("/sim/mute", {"seconds": 0.5})
        began = time.monotonic()
        before = tokens(client)
        assert client.get("/metrics").status == 200
        assert time.monotonic() - began > 0.4
        assert tokens(client) > before

    @pytest.mark.parametrize(
        ("name", "body", "status", "says"),
        [
            ("nothing", {}, 404, "there is no fault 'nothing'; there are freeze, thaw, die"),
            ("slow", {}, 400, "steps_per_second must be a number above 0, got nothing"),
            ("slow", {"steps_per_second": "x"}, 400, 'must be a number above 0, got "x"'),
            ("slow", {"steps_per_second": 0}, 400, "steps_per_second must be a number above 0"),
            ("prefill", {"tokens": 0}, 400, "tokens must be a whole number of at least 1, got 0"),
            ("prefill", {"tokens": 40_000}, 400, "40000 prompt tokens and 1 output tokens are"),
            ("batch", {"requests": 1}, 400, "max_tokens must be a whole number of at least 1"),
            ("batch", {"requests": True, "max_tokens": 1}, 400, "at least 1, got true"),
            ("freeze", {"engine": 1}, 400, "engine must be below 1, got 1"),
            ("freeze", {"seconds": 1}, 400, "freeze does not know the field 'seconds'; it takes"),
            ("mute", {"seconds": -1}, 400, "seconds must be a number above 0, got -1"),
            ("die", "x", 400, "the body is not JSON"),
        ],
    )
    def test_bad_faults(
        self, client: Client, name: str, body: object, status: int, says: str
    ) -> None:
        answer = client.post(f"/sim/{name}", body)
        assert answer.status == status
        assert says in answer.json["error"]
        assert client.get("/sim/state").json["engines"][0]["state"] == "alive"


def tokens(client: Client) -> int:
    return int(client.get("/sim/state").json["engines"][0]["generation_tokens"])
