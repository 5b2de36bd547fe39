"""One stream as its client sees it, and the text it would have had without any restart."""

import json
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum

import httpx

from demo.vllm.ask import Kind, ask
from demo.vllm.tokens import decode, encode, fold, following

MODEL = "tiny"
LONGEST = 32768  # tokens, of the simulated servers
TRUE_ENDS = frozenset({"stop", "length"})


class End(StrEnum):
    """How a stream ended for its client. REFUSED: it got no event at all."""

    COMPLETE = "complete"
    CUT = "cut"
    REFUSED = "refused"


@dataclass(frozen=True)
class Wanted:
    """One request for so many tokens."""

    request_id: str
    body: dict[str, object]

    @classmethod
    def new(cls, tokens: int) -> "Wanted":
        """A request that no other is like."""
        name = uuid.uuid4().hex
        messages = [{"role": "user", "content": f"What do you watch over today, {name}?"}]
        options = {"include_usage": True}
        body: dict[str, object] = {
            "model": MODEL,
            "messages": messages,
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": options,
        }
        return cls(f"rollout-{name}", body)

    @property
    def prompt(self) -> tuple[int, ...]:
        """The ids of its prompt."""
        return ask(Kind.CHAT, json.dumps(self.body).encode(), MODEL, LONGEST).prompt

    def text(self) -> str:
        """What a server that is left alone answers."""
        digest = fold(self.prompt)
        ids: list[int] = []
        for _ in range(int(str(self.body["max_tokens"]))):
            ids.append(following(digest))
            digest = fold(ids[-1:], digest)
        return decode(ids)


@dataclass
class Seen:
    """What came of a request. ``stall``: the longest time without an event, in seconds.

    ``usage``: the completion tokens of the last frame, None where none came. ``why``: of no
    complete end.
    """

    wanted: Wanted
    end: End = End.REFUSED
    text: str = ""
    usage: int | None = None
    stall: float = 0.0
    why: str = ""

    @property
    def tokens(self) -> int:
        """Output tokens that were delivered."""
        return len(encode(self.text))


async def follow(client: httpx.AsyncClient, url: str, wanted: Wanted) -> Seen:
    """Ask, and read to the end. Never raises; what broke it off is in ``why``."""
    seen = Seen(wanted)
    headers = {"x-request-id": wanted.request_id, "authorization": "Bearer sk-rollout"}
    last = time.monotonic()
    try:
        async with client.stream("POST", url, json=wanted.body, headers=headers) as response:
            if response.status_code != httpx.codes.OK:
                seen.why = f"{response.status_code}"
                return seen
            async for data in _events(response):
                now = time.monotonic()
                seen.stall, last = max(seen.stall, now - last), now
                if _take(seen, data):
                    break
            else:
                seen.why = seen.why or "it ended without [DONE]"
    except httpx.HTTPError as error:
        seen.why = str(error) or type(error).__name__
    if seen.end is not End.COMPLETE:
        # Who waits for an event that never comes has waited until the end.
        seen.stall = max(seen.stall, time.monotonic() - last)
    return seen


async def _events(response: httpx.Response) -> AsyncIterator[str]:
    async for line in response.aiter_lines():
        name, _, value = line.partition(":")
        if name == "data":
            yield value.strip()


def _take(seen: Seen, data: str) -> bool:
    """Note one event; tells whether it is the last one."""
    if seen.end is End.REFUSED:
        seen.end = End.CUT  # until a true end is seen
    if data == "[DONE]":
        seen.why = "" if seen.end is End.COMPLETE else seen.why or "[DONE] without a true end"
        return True
    frame = json.loads(data)
    if "error" in frame:
        seen.end, seen.why = End.CUT, str(frame["error"].get("message"))[:200]
        return True
    for choice in frame.get("choices", ()):
        seen.text += choice["delta"].get("content") or ""
        if choice.get("finish_reason") in TRUE_ENDS:
            seen.end = End.COMPLETE
    if frame.get("usage"):
        seen.usage = int(frame["usage"]["completion_tokens"])
    return False
