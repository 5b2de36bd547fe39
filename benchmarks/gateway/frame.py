"""What one token frame costs in the heart of the gateway, without I/O.

    python -m benchmarks.gateway.frame [FRAMES]

One frame is fed at a time, as it comes from a backend at its pace; each with the id, the counts
and the text that vLLM 0.32.0 would give it. Microseconds of CPU, the best of five runs.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence

from gateway.ask import Route, ask
from gateway.stream import Stream

TEXTS = ("The", " lifeguard", " watches", " the", " water", ' \\"', "水", "\\n")
RUNS = 5


def wire(frames: int, *, logprobs: bool = False) -> list[bytes]:
    """Return a chat stream of this many token frames, the role's in front."""
    who = '"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1796045576'
    head = f'data: {{{who},"model":"tiny","choices":[{{"index":0,"delta":'
    found = '{"content":[{"token":"a","logprob":-1.5,"bytes":[97],"top_logprobs":[]}]}'
    told = found if logprobs else "null"
    opening = (
        f'{head}{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}],"usage":'
        f'{{"prompt_tokens":9,"total_tokens":9,"completion_tokens":0}},"prompt_token_ids":[1,2,3]}}'
    )
    tokens = [
        f'{head}{{"content":"{TEXTS[n % len(TEXTS)]}"}},"logprobs":{told},"finish_reason":null,'
        f'"token_ids":[{1000 + n}]}}],"usage":{{"prompt_tokens":9,"total_tokens":{10 + n},'
        f'"completion_tokens":{1 + n}}}}}'
        for n in range(frames)
    ]
    return [f"{frame}\n\n".encode() for frame in (opening, *tokens)]


def stream(**more: object) -> Stream:
    """Return a stream of a client that asked for this."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": "?"}], "stream": True}
    return Stream(ask(Route.CHAT, json.dumps(body | more).encode(), forbid_resume=False), "r", 1)


def microseconds(pieces: Sequence[bytes], frames: int, make: Callable[[], Stream]) -> float:
    """Return what a frame costs."""
    best = float("inf")
    for _ in range(RUNS):
        one = make()
        feed = one.feed
        start = time.process_time()
        for piece in pieces:
            feed(piece)
        best = min(best, time.process_time() - start)
        if len(one.delivered) != frames:
            raise SystemExit(f"{len(one.delivered)} of {frames} tokens were delivered: {one.why}")
    return best / frames * 1e6


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    frames = int(arguments[0]) if arguments else 20_000
    plain, slow = wire(frames), wire(frames, logprobs=True)
    together = [b"".join(plain[at : at + 8]) for at in range(0, len(plain), 8)]
    one_piece = b"".join(plain)
    bytes_apart = wire(frames // 50)
    apart = [bytes((byte,)) for byte in b"".join(bytes_apart)]
    rows: tuple[tuple[str, Sequence[bytes], int, Callable[[], Stream]], ...] = (
        ("one frame per read", plain, frames, stream),
        ("eight frames per read", together, frames, stream),
        ("all frames in one read", [one_piece], frames, stream),
        ("ids asked for", plain, frames, lambda: stream(return_token_ids=True)),
        ("stop strings", plain, frames, lambda: stream(stop=["never", "said"])),
        ("log probabilities (decoded)", slow, frames, lambda: stream(logprobs=True)),
        ("one byte per read", apart, frames // 50, stream),
    )
    for name, pieces, number, make in rows:
        print(f"{name:32}{microseconds(pieces, number, make):8.2f} µs per frame")
    fast = microseconds(plain, frames, stream)
    decoded = microseconds(slow, frames, lambda: stream(logprobs=True))
    print(f"RESULT frame_us={fast:.2f} decoded_frame_us={decoded:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
