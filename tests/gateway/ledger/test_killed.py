"""SIGKILL at random moments, with two gateways on one database and 50 streams in each."""

import os
import random
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.ledger.database import Database
from gateway.ledger.gone import Gone
from tests.gateway.ledger.making import charged, unequal

ROUNDS = {"sqlite": 26, "postgresql": 8}
ROOT = Path(__file__).parents[3]
PLAYER = "tests.gateway.ledger.player"
READY_SECONDS = 60.0
MOST_IN_ONE_EVENT = 8


@dataclass
class Heard:
    """What clients have received, as far as anybody knows."""

    delivered: Counter[str] = field(default_factory=Counter)
    prompts: dict[str, int] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    kills: int = 0

    def take(self, text: str) -> None:
        for line in text.splitlines():
            match line.split():
                case ["id", name, count]:
                    self.delivered[name] += int(count)
                case ["admitted", name, prompt]:
                    self.prompts[name] = int(prompt)
                case ["closed", name]:
                    self.closed.add(name)
                case ["refused", name]:
                    self.refused.append(name)


class Player:
    """A gateway in a process of its own, which is killed."""

    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self._text = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", PLAYER, url, str(folder), str(seed)],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            cwd=ROOT,
        )
        assert self._process.stdout
        self._pipe = self._process.stdout.fileno()
        os.set_blocking(self._pipe, False)

    def listen(self, seconds: float, until: str | None = None) -> None:
        """Read what it tells for a while, or until it tells ``until``."""
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._pipe, selectors.EVENT_READ)
            while (left := deadline - time.monotonic()) > 0:
                if until and until in self._text:
                    return
                if selector.select(left):
                    data = os.read(self._pipe, 1 << 20)
                    if not data:
                        raise AssertionError(f"the player ended by itself: {self._text[-200:]}")
                    self._text += data.decode()
        if until:
            raise AssertionError(f"never told {until!r}: {self._text[-200:]}")

    def kill(self) -> str:
        """SIGKILL; returns everything that it has told."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        os.set_blocking(self._pipe, True)
        with self._process:
            assert self._process.stdout
            self._text += self._process.stdout.read().decode()
        return self._text


@pytest.mark.timeout(900)
def test_no_delivered_token_is_unbilled_and_no_prompt_is_charged_twice(
    database_url: str, tmp_path: Path
) -> None:
    folder = tmp_path / "journal"
    chance = random.Random(20260301)
    heard = Heard()
    rounds = ROUNDS[database_url.partition(":")[0].partition("+")[0]]
    Database(database_url).close()
    for number in range(rounds):
        players = [Player(database_url, folder, 2 * number + which) for which in range(2)]
        # Every third time one dies while it books what those before it left.
        early = number % 3 == 2
        players[0].listen(READY_SECONDS, "recovering" if early else "started")
        players[1].listen(READY_SECONDS, "started")
        players[0].listen(chance.random() * (0.02 if early else 0.8))
        heard.take(players[0].kill())
        players[1].listen(chance.random() * 0.5)
        heard.take(players[1].kill())
        heard.kills += 2
    database = Database(database_url)
    gone = Gone(database, folder, "tester", 0.0)
    gone.recover()
    gone.recover()
    gone.take_over()
    gone.take_over()
    book = charged(database)
    assert heard.kills == 2 * rounds
    assert sum(heard.delivered.values()) > 200 * rounds
    assert heard.refused == []
    unbilled = {
        name: count - (book[name].completion if name in book else 0)
        for name, count in heard.delivered.items()
        if name not in book or book[name].completion < count
    }
    assert unbilled == {}
    # At most what was about to be sent when it was killed.
    too_much = {
        name: record.completion - heard.delivered[name]
        for name, record in book.items()
        if record.completion - heard.delivered[name]
        > (0 if name in heard.closed else MOST_IN_ONE_EVENT)
    }
    assert too_much == {}
    wrong_prompts = {
        name: (book[name].prompt, prompt)
        for name, prompt in heard.prompts.items()
        if book[name].prompt not in (prompt, None)
        or (heard.delivered[name] and book[name].prompt is None)
    }
    assert wrong_prompts == {}
    assert {
        name for name in heard.closed if book[name].state not in ("complete", "partial")
    } == set()
    assert {name for name, record in book.items() if record.state == "open"} == set()
    assert {name for name, record in book.items() if record.holder} == set()
    assert unequal(database) == []
    assert list(folder.glob("*.journal")) == []
    database.close()
