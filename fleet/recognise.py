"""What is a vLLM server: told by image, command and name; where these leave it open, by its port.

``Certainty.POSSIBLE`` is for a container whose image is not known (a variable, or built in place)
and that has either vLLM's name or both its port, 8000, and a look at its /health. All else that
does not show vLLM is none of our business.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

# Programs with vLLM in their name that serve no model themselves.
OTHERS = re.compile(
    r"vllm[-_/.]?(?:exporter|remediator|gateway|lifeguard|router|bench\w*|client|proxy|monitor)"
    r"|(?:router|lifeguard)",
    re.IGNORECASE,
)
SERVES = re.compile(
    r"\bvllm\s+(?:serve|launch)\b|\bvllm\.(?:entrypoints|scripts)\b"
    # Flags that vLLM has and other servers have not.
    r"|--(?:gpu-memory-utilization|max-num-seqs|max-num-batched-tokens|enable-prefix-caching)\b"
)
# `vllm bench`, `vllm chat` and the like, in an image that could serve.
DOES_OTHERWISE = re.compile(r"\bvllm\s+(?:bench|chat|complete|run-batch|collect-env)\b")
UNKNOWN_IMAGE = re.compile(r"^$|\$|\{\{")
PORT = "8000"


class Certainty(IntEnum):
    """How sure it is that something is a vLLM server."""

    NO = 0
    POSSIBLE = 1
    SURE = 2


@dataclass(frozen=True)
class Described:
    """What a file says about a container or a service; empty where it says nothing."""

    name: str
    image: str = ""
    command: str = ""
    ports: str = ""
    looks_at: str = ""

    @property
    def certainty(self) -> Certainty:
        """Whether this is a vLLM server."""
        if OTHERS.search(self.image) or DOES_OTHERWISE.search(self.command):
            return Certainty.NO
        if SERVES.search(self.command) or "vllm" in self.image.lower():
            return Certainty.SURE
        if not UNKNOWN_IMAGE.search(self.image) or OTHERS.search(f"{self.name} {self.command}"):
            return Certainty.NO
        named = names_vllm(self.name)
        port = PORT in re.findall(r"\d+", f"{self.ports} {self.command}")
        return Certainty(named or (port and "/health" in self.looks_at))

    @property
    def subject(self) -> str:
        """Beginning of a sentence about it."""
        if self.certainty is Certainty.SURE:
            return f"{self.name}: "
        image = f"image {self.image}" if self.image else "image not named here"
        return f"{self.name} (possibly vLLM, {image}): "


def names_vllm(text: str) -> bool:
    """Whether a text names vLLM itself, not only one of the programs around it."""
    return "vllm" in OTHERS.sub("", text).lower()
