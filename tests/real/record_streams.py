"""Record real vLLM streams into tests/fixtures/streams; the tests of the gateway replay them.

    python -m tests.real.record_streams [tools] [plain] [term] [window-60] [window-1]

Each has two files: NAME.json (route, body and, for a continuation, what it goes on
from) and NAME.sse (the bytes, as they came), or NAME.body (the answer to a request that did not
stream). `wide` is what the gateway asks for, `narrow` what a client asked for.
"""

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import requests

from demo.child import free_ports
from tests.real.vllm_server import Server, engines, members, running

FOLDER = Path(__file__).parents[1] / "fixtures" / "streams"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
SAY = [{"role": "user", "content": "水をみる lifeguard 🏊"}]
WIDE = {
    "stream": True,
    "return_token_ids": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}
NARROWS: dict[str, dict[str, object]] = {
    "bare": {"stream": True},
    "usage": {"stream": True, "stream_options": {"include_usage": True}},
    "everything": WIDE,
    "ids": {"stream": True, "return_token_ids": True},
    "whole": {},
}
TOOL = {
    "type": "function",
    "function": {
        "name": "watch",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string", "maxLength": 6}},
            "required": ["place"],
            "additionalProperties": False,
        },
    },
}


def chat(**more: object) -> tuple[str, dict[str, object]]:
    return CHAT, {"model": "tiny", "messages": SAY, **more}


def completion(
    prompt: object = "A server that is busy", **more: object
) -> tuple[str, dict[str, object]]:
    return COMPLETIONS, {"model": "tiny", "prompt": prompt, **more}


# With temperature 1 and a seed the tiny model writes random bytes: characters of many tokens.
SCENES: dict[str, tuple[str, dict[str, object]]] = {
    "chat": chat(max_tokens=24, temperature=0),
    "chat-random": chat(max_tokens=60, temperature=1, seed=7),
    "chat-two": chat(max_tokens=8, temperature=1, seed=3, n=2),
    "chat-logprobs": chat(max_tokens=12, temperature=1, seed=5, logprobs=True, top_logprobs=2),
    "completion": completion(max_tokens=24, temperature=0),
    "completion-default": completion(temperature=0),
    "completion-random": completion(max_tokens=60, temperature=1, seed=7, ignore_eos=True),
    "completion-two": completion(max_tokens=8, temperature=1, seed=3, n=2),
    "completion-prompts": completion(["Nothing", "moved"], max_tokens=6, temperature=0),
    "completion-logprobs": completion(max_tokens=12, temperature=1, seed=5, logprobs=2),
}


def write(name: str, route: str, body: dict[str, object], answer: bytes, **more: object) -> None:
    streamed = bool(body.get("stream"))
    (FOLDER / f"{name}.json").write_text(
        json.dumps({"route": route, "body": body, **more}, ensure_ascii=False) + "\n"
    )
    (FOLDER / f"{name}.{'sse' if streamed else 'body'}").write_bytes(answer)
    sys.stderr.write(f"{name} {len(answer)}\n")


def ask(url: str, route: str, body: dict[str, object]) -> bytes:
    taken = bytearray()
    with requests.post(url + route, json=body, stream=True, timeout=120) as answer:
        try:
            for piece in answer.iter_content(None):
                taken += piece
        except requests.RequestException as error:
            sys.stderr.write(f"  cut: {type(error).__name__}\n")
    return bytes(taken)


def events(raw: bytes) -> list[dict[str, object]]:
    return [json.loads(event[6:]) for event in raw.split(b"\n\n") if event.startswith(b"data: {")]


def prompt_and_frames(raw: bytes) -> tuple[list[int], list[tuple[list[int], str]]]:
    prompt: list[int] = []
    frames = []
    for event in events(raw):
        prompt = event.get("prompt_token_ids") or prompt  # type: ignore[assignment]
        for choice in event.get("choices", []):  # type: ignore[attr-defined]
            prompt = choice.get("prompt_token_ids") or prompt
            text = choice.get("text") or choice.get("delta", {}).get("content") or ""
            frames.append((choice.get("token_ids") or [], text))
    return prompt, frames


def record_pairs(url: str) -> None:
    for scene, (route, body) in SCENES.items():
        for kind, narrow in NARROWS.items():
            write(f"{scene}.{kind}", route, body | narrow, ask(url, route, body | narrow))


def record_stops(url: str) -> None:
    """Stop strings taken from what the model is known to write: in a frame, over frames, never."""
    for scene in ("chat", "chat-random", "completion", "completion-random"):
        route, body = SCENES[scene]
        wide = (FOLDER / f"{scene}.everything.sse").read_bytes()
        text = "".join(text for _, text in prompt_and_frames(wide)[1])
        stops = [text[9:14], "never said"] if len(text) > 14 else [text[1:3]]
        for extra in ({"stop": stops}, {"stop": stops[0], "include_stop_str_in_output": True}):
            tag = "stop-included" if "include_stop_str_in_output" in extra else "stop"
            for kind in ("usage", "everything", "whole"):
                full = body | extra | NARROWS[kind]
                write(f"{scene}-{tag}.{kind}", route, full, ask(url, route, full))
    route, body = SCENES["chat-random"]
    for kind in ("usage", "whole"):
        full = body | {"stop": ["never said at all"]} | NARROWS[kind]
        write(f"chat-random-stop-missed.{kind}", route, full, ask(url, route, full))


def record_stop_token(url: str) -> None:
    route, body = SCENES["chat"]
    wide = (FOLDER / "chat.everything.sse").read_bytes()
    ids = [i for ids, _ in prompt_and_frames(wide)[1] for i in ids]
    for kind in ("usage", "everything", "whole"):
        full = body | {"stop_token_ids": [ids[10]], "min_tokens": 3} | NARROWS[kind]
        write(f"chat-stop-token.{kind}", route, full, ask(url, route, full))


def record_continuations(url: str) -> None:
    for scene in ("chat", "completion", "completion-random", "chat-random"):
        route, body = SCENES[scene]
        body = body | {"temperature": 0}
        body.pop("seed", None)
        wide = ask(url, route, body | WIDE)
        write(f"{scene}-greedy.everything", route, body | WIDE, wide)
        prompt, frames = prompt_and_frames(wide)
        for share in (0.1, 0.5, 0.9):
            cut = max(k for k in range(max(2, int(len(frames) * share))) if frames[k][1] or k == 0)
            ids = [i for taken, _ in frames[: cut + 1] for i in taken]
            left = int(str(body["max_tokens"])) - len(ids)
            later = body | WIDE | {"max_tokens": left}
            if route == CHAT:
                later["kv_transfer_params"] = {"prompt_token_ids": prompt + ids}
            else:
                later["prompt"] = prompt + ids
            answer = ask(url, route, later)
            write(f"{scene}-greedy.later-{int(share * 100)}", route, later, answer, goes_on=ids)


def record_tools(url: str) -> None:
    for tag, choice in (
        ("named", {"type": "function", "function": {"name": "watch"}}),
        ("auto", "auto"),
    ):
        route, body = chat(max_tokens=40, temperature=0, tools=[TOOL], tool_choice=choice)
        for kind in ("usage", "everything", "whole"):
            write(
                f"chat-tool-{tag}.{kind}",
                route,
                body | NARROWS[kind],
                ask(url, route, body | NARROWS[kind]),
            )


def record_end(
    server: Server, name: str, act: Callable[[], None], route_body: tuple[str, dict[str, object]]
) -> None:
    route, body = route_body
    answers: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(server.url, route, body | WIDE)))
        for _ in range(6)  # four run, two queue
    ]
    for thread in threads:
        thread.start()
    time.sleep(4.0)
    act()
    for thread in threads:
        thread.join(60)
    for number, answer in enumerate(sorted(answers, key=len)):
        if number in (0, len(answers) - 1):
            write(
                f"end-{name}.{'queued' if number == 0 else 'running'}", route, body | WIDE, answer
            )


def terminate(server: Server) -> None:
    os.kill(members(server)[0].pid, signal.SIGTERM)


def record_plain(server: Server, long: tuple[str, dict[str, object]]) -> None:
    record_pairs(server.url)
    record_stops(server.url)
    record_stop_token(server.url)
    record_continuations(server.url)
    record_end(
        server,
        "engine-killed",
        lambda: os.kill(engines(server)[0].pid, signal.SIGKILL),
        long,
    )


def main(only: list[str]) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    long = completion(max_tokens=600, temperature=0, ignore_eos=True)
    short = completion(max_tokens=250, temperature=0, ignore_eos=True)
    tools = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
    # What runs, the server's flags, and what is recorded of it.
    takes: dict[str, tuple[tuple[str, ...], Callable[[Server], None]]] = {
        "tools": (tools, lambda server: record_tools(server.url)),
        "plain": ((), lambda server: record_plain(server, long)),
        "term": (
            (),
            lambda server: record_end(server, "sigterm", partial(terminate, server), long),
        ),
        "window-60": (
            ("--shutdown-timeout", "60"),
            lambda server: record_end(
                server, "sigterm-window-60", partial(terminate, server), short
            ),
        ),
        "window-1": (
            ("--shutdown-timeout", "1"),
            lambda server: record_end(server, "sigterm-window-1", partial(terminate, server), long),
        ),
    }
    for name, (flags, record) in takes.items():
        if not only or name in only:
            with (
                tempfile.TemporaryDirectory() as folder,
                running(Server(Path(folder), free_ports(1)[0], flags=flags)) as server,
            ):
                record(server)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
