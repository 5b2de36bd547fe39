"""The running gateway is killed under load: what a client has got is on the bill, once."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.gateway.hearing import CHAT, COMPLETIONS, Heard, listening, prompt_length, question
from tests.gateway.running import SECONDS, Gateway, Simulated, eventually

CLIENTS = 8
KILLS = 5
LENGTHS = (5, 20, 60, 400)
MOST_BYTES = 400_000  # what all clients have together when the gateway is killed, at most


@dataclass
class Load:
    """Clients that ask again and again until the gateway is gone."""

    gateway: Gateway
    random: Random
    heard: list[tuple[str, dict[str, object], Heard]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        seeds = [self.random.random() for _ in range(CLIENTS)]
        self._threads = [threading.Thread(target=self._client, args=(seed,)) for seed in seeds]
        for thread in self._threads:
            thread.start()

    def _client(self, seed: float) -> None:
        random = Random(seed)
        while not self.over.is_set():
            path = random.choice((CHAT, COMPLETIONS))
            body = question(path, random.choice(LENGTHS))
            try:
                with listening(self.gateway.url, path, body) as stream:
                    self.heard.append((path, body, stream.heard))
                    stream.rest()
            except OSError:
                return

    @property
    def received(self) -> int:
        """Bytes that all of them have by now."""
        return sum(len(heard.raw) for _, _, heard in self.heard)

    def wait(self) -> None:
        """Wait for all clients, which have nobody to ask any more."""
        self.over.set()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive()


def simulated(folder: Path, name: str) -> Simulated:
    return Simulated(
        folder, name, steps_per_second=100, max_num_seqs=16, prefill_tokens_per_second=20000.0
    )


@pytest.fixture
def backends(tmp_path: Path) -> Iterator[dict[str, str]]:
    with simulated(tmp_path, "gpu-a") as one, simulated(tmp_path, "gpu-b") as two:
        yield {"gpu-a": one.url, "gpu-b": two.url}


def test_a_gateway_killed_at_any_moment_has_billed_what_its_clients_got(
    tmp_path: Path, backends: dict[str, str]
) -> None:
    random = Random(20261130)
    tokens_heard = cut = 0
    seen: dict[str, tuple[str, dict[str, object], Heard]] = {}
    for _ in range(KILLS):
        with Gateway(tmp_path, backends) as gateway:
            settled(gateway, seen)
            load = Load(gateway, random)
            eventually(lambda load=load: len(load.heard) >= CLIENTS, "all clients are at it")
            much = random.randint(1, MOST_BYTES)
            eventually(lambda load=load, much=much: load.received >= much, f"{much} bytes")
            gateway.kill()
            load.wait()
        for path, body, heard in load.heard:
            if heard.headers.get("x-request-id"):
                seen[heard.headers["x-request-id"]] = (path, body, heard)
                cut += not heard.done
                tokens_heard += len(texts(heard))
    with Gateway(tmp_path, backends) as gateway:
        settled(gateway, seen)
    assert cut >= KILLS
    assert tokens_heard > 1000


def settled(gateway: Gateway, seen: dict[str, tuple[str, dict[str, object], Heard]]) -> None:
    """Check the whole bill, as the start of a gateway leaves it."""
    eventually(lambda: all(row.state != "open" for row in gateway.ledger().values()), "booked")
    rows = gateway.ledger()
    for request_id, (path, body, heard) in seen.items():
        row, got = rows[request_id], len(texts(heard))
        # What was on its way when the gateway died was sent, too: at most what sockets hold.
        assert got <= row.completion_tokens <= int(str(body["max_tokens"])), request_id
        if got:
            assert row.prompt_tokens == prompt_length(path, body)
            assert row.state == ("complete" if heard.done else row.state)
            assert row.state in ("complete", "partial")


def texts(heard: Heard) -> list[str]:
    """The texts of the tokens that came, one each."""
    found = []
    for frame in heard.objects:
        for choice in frame.get("choices", ()):
            said = choice.get("text") or choice.get("delta", {}).get("content")
            found += [said] if said else []
    return found
