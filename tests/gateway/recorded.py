"""Streams of a real vLLM 0.32.0, recorded by tests/real/record_streams.py."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from gateway.ask import Ask, Route, ask
from gateway.cut import Learned

FOLDER = Path(__file__).parents[1] / "fixtures" / "streams"
FINGERPRINT = b',"system_fingerprint":"vllm-0.32.0-5eb96d00"'


@dataclass(frozen=True)
class Recorded:
    """One request and its answer."""

    name: str

    @property
    def told(self) -> dict[str, object]:
        told: dict[str, object] = json.loads((FOLDER / f"{self.name}.json").read_text())
        return told

    @property
    def answer(self) -> bytes:
        file = FOLDER / f"{self.name}.sse"
        return (file if file.exists() else FOLDER / f"{self.name}.body").read_bytes()

    @property
    def ask(self) -> Ask:
        body = json.dumps(self.told["body"]).encode()
        return ask(Route(str(self.told["route"])), body, forbid_resume=False)

    @property
    def wide(self) -> "Recorded":
        """The same request as the gateway sends it: with everything, without stop strings."""
        scene = self.name.rpartition(".")[0]
        return Recorded(re.sub(r"-stop(-included|-missed)?$", "", scene) + ".everything")


def named(pattern: str) -> list[str]:
    """Return the names of the recorded requests of this form."""
    found = sorted(file.stem for file in FOLDER.glob(f"{pattern}.json"))
    assert found, f"{pattern}: python -m tests.real.record_streams records it"
    return found


def learned() -> Learned:
    """Return what a stream before would have taught."""
    return Learned(fingerprint=FINGERPRINT)


def without_numbers(out: bytes) -> bytes:
    """Return a client's bytes without event numbers."""
    return re.sub(rb"(?m)^id: .*\n", b"", out)


def comparable(out: bytes) -> bytes:
    """Return bytes in which two runs of one request do not differ: no ids, no times."""
    out = re.sub(rb'"id":"(chatcmpl|cmpl)-[-a-z0-9]+"', rb'"id":"\1"', without_numbers(out))
    return re.sub(rb'"created":\d+', b'"created":0', out)


def by_choice(out: bytes) -> dict[object, list[bytes]]:
    """Return the events of each choice; two choices come in any order."""
    found: dict[object, list[bytes]] = {}
    for event in comparable(out).split(b"\n\n"):
        index = re.search(rb'"choices":\[\{"index":(\d+)', event)
        found.setdefault(index and index.group(1), []).append(event)
    return found
