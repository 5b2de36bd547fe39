"""A client that believes what it reads."""

import json
import re
from dataclasses import dataclass, field

from gateway.frames import Event


@dataclass
class Client:
    """What a client has read of one answer."""

    text: str = ""
    finish_reasons: list[str] = field(default_factory=list)
    stop_reasons: list[object] = field(default_factory=list)
    who: set[tuple[object, ...]] = field(default_factory=set)
    roles: int = 0
    usages: list[dict[str, int]] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    done: int = 0

    def read(self, out: bytes) -> "Client":
        for raw in out.split(b"\n\n"):
            if not raw or raw.startswith(b":"):
                continue
            number = re.match(rb"id: r\.(\d+)\n", raw)
            assert number, raw
            self.numbers.append(int(number.group(1)))
            self._data(Event.from_bytes(raw).data or b"")
        return self

    def _data(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.done += 1
            return
        frame = json.loads(data)
        if "id" not in frame:
            return
        self.who.add((frame["id"], frame["created"], frame["model"]))
        if not frame["choices"]:
            self.usages.append(frame["usage"])
        for choice in frame["choices"]:
            assert choice.get("token_ids") is None
            assert choice.get("prompt_token_ids") is None
            delta = choice.get("delta", {})
            self.roles += "role" in delta
            self.text += delta.get("content") or choice.get("text") or ""
            if choice["finish_reason"]:
                self.finish_reasons.append(choice["finish_reason"])
                self.stop_reasons.append(choice["stop_reason"])
