"""A gateway that plays streams until it is killed, and tells on a pipe what it has delivered.

python -m tests.gateway.ledger.player URL FOLDER SEED

Each message is a line: ``recovering``, ``started``, ``admitted ID PROMPT``, ``id ID COUNT`` once
COUNT more tokens were delivered, ``closed ID``. One write each, so a line is whole or not there.
"""

import asyncio
import os
import random
import sys
import time
from pathlib import Path

from gateway.bill import Admission, Closed, End, LegEnd, Opened
from gateway.ledger.ledger import Ledger

STREAMS = 50
EVENTS_PER_SECOND = 50
LONGEST = 60


def tell(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def stream(ledger: Ledger, chance: random.Random, name: str) -> None:
    prompt = chance.randint(1, 400)
    opened = Opened(
        name, f"caller-{chance.randint(1, 3)}", f"key-{name}", "m", "/v1/c", time.time()
    )
    if await ledger.admit(opened) != Admission.NEW:
        tell("refused", name)
        return
    tell("admitted", name, prompt)
    ledger.keep(name, b"snapshot of " + name.encode())
    delivered = 0
    for leg in range(chance.choice((1, 1, 1, 2, 3))):
        ledger.begins(name, f"gpu-{leg}", time.time())
        ledger.prompt(name, prompt, prompt + delivered)
        received = 0
        for _ in range(chance.randint(1, LONGEST)):
            ids = [chance.getrandbits(17) for _ in range(chance.choice((1, 1, 1, 2, 8)))]
            ledger.add(name, ids)
            tell("id", name, len(ids))
            received += len(ids)
            await asyncio.sleep(chance.random() * 2 / EVENTS_PER_SECOND)
        ledger.leg(name, LegEnd(f"gpu-{leg}", prompt + delivered, received, "cut", time.time()))
        delivered += received
    end = chance.choice((End.COMPLETE, End.COMPLETE, End.PARTIAL))
    ledger.close(name, Closed(end, "stop", prompt, delivered, time.time()))
    tell("closed", name)


async def play(ledger: Ledger, seed: int) -> None:
    chance = random.Random(seed)

    async def one_after_another(number: int) -> None:
        for again in range(1_000_000):
            await stream(ledger, chance, f"{seed}-{number}-{again}")

    await asyncio.gather(*(one_after_another(number) for number in range(STREAMS)))


def main(url: str, folder: str, seed: str) -> None:
    ledger = Ledger(url, Path(folder), takeover_after=1.0, segment_bytes=1 << 20)
    tell("recovering")
    tell("started", ledger.start())
    asyncio.run(play(ledger, int(seed)))


if __name__ == "__main__":
    main(*sys.argv[1:])
