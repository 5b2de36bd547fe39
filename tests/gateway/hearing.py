"""A client of real sockets: it keeps every byte of a stream, and what they say."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

from demo.vllm.ask import Kind, ask
from demo.vllm.reply import Reply
from demo.vllm.request import FinishReason, Output
from demo.vllm.tokens import decode, fold, following

SECONDS = 60.0
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MODEL_LENGTH = 32768


def question(path: str, max_tokens: int = 40, **more: object) -> dict[str, object]:
    """A request for a stream that says all it can."""
    said: dict[str, object] = {"prompt": "wake who is only resting"}
    if path == CHAT:
        said = {"messages": [{"role": "user", "content": "wake who is only resting"}]}
    return {"model": "tiny", **said, "max_tokens": max_tokens, "stream": True, **more}


def tokens(path: str, body: Mapping[str, object]) -> list[int]:
    """The token ids that a simulated server answers with when nobody disturbs it."""
    wanted = ask(Kind(path), json.dumps(body).encode(), "tiny", MODEL_LENGTH)
    digest, found = fold(wanted.prompt), list[int]()
    while len(found) < wanted.max_tokens:
        found.append(following(digest))
        digest = fold(found[-1:], digest)
    return found


def text(path: str, body: Mapping[str, object]) -> str:
    """The text that a simulated server answers with when nobody disturbs it."""
    return decode(tokens(path, body))


def prompt_length(path: str, body: Mapping[str, object]) -> int:
    """How many tokens a request's prompt has."""
    return len(ask(Kind(path), json.dumps(body).encode(), "tiny", MODEL_LENGTH).prompt)


def frames(path: str, body: bytes) -> list[bytes]:
    """All frames that a simulated server answers a body with, one for each token and the end."""
    asked = json.loads(body)
    wanted = ask(Kind(path), body, "tiny", MODEL_LENGTH)
    kind = "chatcmpl" if path == CHAT else "cmpl"
    reply = Reply(wanted, f"{kind}-played", 1)
    ids = tokens(path, asked)
    found: list[bytes] = []
    for number, token in enumerate(ids, start=1):
        finish = FinishReason.LENGTH if number == len(ids) else None
        output = Output("played", token, finish, 0.0)
        found.append(b"".join(reply.frames(output, number)))
    return [*found, *reply.closing(len(ids))]


@dataclass
class Heard:
    """What came of one answer, over one connection or several."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""
    broken: bool = False

    @property
    def events(self) -> list[tuple[str, str]]:
        """The id and the data of each event."""
        found = []
        for raw in self.raw.split(b"\n\n")[:-1]:
            lines = raw.decode().split("\n")
            ids = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]
            datas = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
            if datas:
                found.append((ids[0] if ids else "", "\n".join(datas)))
        return found

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The events that are JSON."""
        return [json.loads(data) for _, data in self.events if data != "[DONE]"]

    @property
    def text(self) -> str:
        """What all frames say, joined."""
        said = ""
        for frame in self.objects:
            for choice in frame.get("choices", ()):
                said += choice.get("text") or choice.get("delta", {}).get("content") or ""
        return said

    @property
    def numbers(self) -> list[int]:
        """The numbers of the events."""
        return [int(number.rpartition(".")[2]) for number, _ in self.events]

    @property
    def last_id(self) -> str:
        """The id of the last event."""
        return self.events[-1][0]

    @property
    def done(self) -> int:
        """How often the stream says that it is at its end."""
        return sum(data == "[DONE]" for _, data in self.events)

    @property
    def goodbye(self) -> dict[str, Any] | None:
        """The shutdown frame, if there is one; it must be the last one then."""
        found = [frame for frame in self.objects if frame.get("type") == "shutdown"]
        assert not found or (found == [self.objects[-1]] and not self.done)
        return found[0] if found else None

    @property
    def finish_reasons(self) -> list[str]:
        """Why the choices ended."""
        return [
            choice["finish_reason"]
            for frame in self.objects
            for choice in frame.get("choices", ())
            if choice.get("finish_reason")
        ]

    @property
    def who(self) -> set[tuple[object, ...]]:
        """Who the frames say they are of."""
        return {(f["id"], f["created"], f["model"]) for f in self.objects if "created" in f}

    def is_one_whole_answer(self, path: str, body: Mapping[str, object]) -> None:
        """Check that nobody could tell this from an answer that was never disturbed."""
        assert self.status == 200, self.raw
        assert not self.broken
        assert self.text == text(path, body)
        assert self.numbers == list(range(1, len(self.numbers) + 1))
        assert len({number.rpartition(".")[0] for number, _ in self.events}) == 1
        assert self.finish_reasons == ["length"]
        assert self.done == 1
        assert self.events[-1][1] == "[DONE]"
        assert len(self.who) == 1
        assert not any("error" in frame for frame in self.objects)
        roles = re.findall(rb'"role":', self.raw)
        assert len(roles) == (path == CHAT)


class Stream:
    """An open answer."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response
        self.heard = Heard(response.status, {k.lower(): v for k, v in response.getheaders()})

    def read(self, events: int) -> Heard:
        """Read until so many events are there in all."""
        while len(self.heard.events) < events:
            line = self._response.readline()
            assert line, self.heard.raw
            self.heard.raw += line
            while line != b"\n":
                line = self._response.readline()
                self.heard.raw += line
                assert line, self.heard.raw
        return self.heard

    def rest(self) -> Heard:
        """Read to the end, whatever it is."""
        try:
            while data := self._response.read1(65536):
                self.heard.raw += data
        except (OSError, HTTPException):
            self.heard.broken = True
        return self.heard


@contextmanager
def listening(url: str, path: str, body: object, **headers: str) -> Iterator[Stream]:
    """Ask, and hear the answer as it comes; leaving it hangs up."""
    named = {"content-type": "application/json"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    with _connected(url, "POST", path, json.dumps(body), named) as stream:
        yield stream


@contextmanager
def tracking(url: str, path: str, **headers: str) -> Iterator[Stream]:
    """Follow a stream as a browser's EventSource does; leaving it hangs up."""
    named = {"accept": "text/event-stream"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    with _connected(url, "GET", path, None, named) as stream:
        yield stream


@contextmanager
def _connected(
    url: str, method: str, path: str, body: str | None, headers: Mapping[str, str]
) -> Iterator[Stream]:
    connection = HTTPConnection(urlsplit(url).netloc, timeout=SECONDS)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        try:
            yield Stream(response)
        finally:
            response.close()
    finally:
        connection.close()


def hear(url: str, path: str, body: object, **headers: str) -> Heard:
    """Ask, and hear the whole answer."""
    with listening(url, path, body, **headers) as stream:
        return stream.rest()


def follow(url: str, path: str, **headers: str) -> Heard:
    """Follow a stream to its end, whatever that is."""
    with tracking(url, path, **headers) as stream:
        return stream.rest()
