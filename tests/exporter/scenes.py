"""A fleet in which everything goes on that a page for people has to show, made of real looks."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from exporter.memory import Memory
from fleet.backend import Backend, Kind
from fleet.fetch import Failure, Trouble
from fleet.reading import Reading
from tests.exporter.fleets import backend_at, remember
from tests.fleet.pages import BUSY, IDLE, page
from tests.fleet.watching import REFUSED, TIMEOUT, recorded

# Steps in each 15 s of a busy day.
DAY = (812, 790, 655, 700, 840, 871, 902, 610, 420, 466, 530, 700, 745, 790, 760)
NOTHING_TO_DO = {name: IDLE[name] for name in ("running", "waiting", "capacity", "kv")}
HOSTILE = Failure(Trouble.UNREADABLE, "it said <script>alert(1)</script><b onclick=alert(2)>&amp;")


def working(steps: Sequence[int], *, start: float = 1.0, first: int = 100) -> list[Reading]:
    """Readings of a process that did so many steps before each."""
    return [
        Reading.from_page(page({"0": _busy(done)}, start))
        for done in accumulate(steps, initial=first)
    ]


def _busy(steps: int, **more: float) -> dict[str, float]:
    return {**BUSY, "steps": steps, "generated": 3 * steps, **more}


def prefilling(many: int, *, steps: int) -> list[Reading]:
    """Readings of a long prompt being read: no step is counted, KV usage rises."""
    return [
        Reading.from_page(page({"0": _busy(steps, kv=0.3 + 0.01 * i)}, 1.0)) for i in range(many)
    ]


def _idle(steps: int) -> Reading:
    return Reading.from_page(page({"0": {**_busy(steps), **NOTHING_TO_DO}}, 1.0))


def _ranks(many: int) -> Iterator[Reading]:
    """Four engines, of which the third freezes."""
    for i, done in enumerate(accumulate((DAY * 3)[:many], initial=100)):
        frozen = min(i, many - 11)
        stuck = list(accumulate((DAY * 3)[:frozen], initial=100))[-1]
        engines = {str(n): _busy(done + 7 * n * i) for n in range(4)} | {"2": _busy(stuck)}
        yield Reading.from_page(page(engines, 1.0))


def at(name: str, wait: float = 60.0, kind: Kind = Kind.VLLM) -> Backend:
    return backend_at(f"http://10.0.0.11:80{len(name):02d}", name=name, wait=wait, kind=kind)


def everything(memory: Memory) -> None:
    """Put every backend of the scene, as last looked at at 1000 s; one of them much earlier."""
    day = working(DAY * 4)[:60]
    total = 100 + sum((DAY * 4)[:59])
    scene: dict[str, tuple[list[Reading | Failure], float, Kind]] = {
        "busy": (list(day), 90.0, Kind.VLLM),
        "prefill": ([*day[:45], *prefilling(15, steps=100 + sum((DAY * 3)[:44]))], 90.0, Kind.VLLM),
        "stuck": ([*day[:46], *[day[45]] * 14], 90.0, Kind.VLLM),
        "quiet": ([*day[:50], *[day[49]] * 7], 90.0, Kind.VLLM),
        "soon-quiet": ([*day[:50], *[day[49]] * 3], 90.0, Kind.VLLM),
        "idle": ([*day, *[_idle(total)] * 25], 90.0, Kind.VLLM),
        "restarted": ([*day[:40], *working(DAY, start=2.0)[:19]], 90.0, Kind.VLLM),
        "just-restarted": ([*day[:40], *working((), start=2.0)], 90.0, Kind.VLLM),
        "down": ([*day[:50], *[REFUSED] * 9], 90.0, Kind.VLLM),
        "never-there": ([REFUSED] * 20, 90.0, Kind.VLLM),
        "slow": ([*day[:30], TIMEOUT, *day[32:40], TIMEOUT, TIMEOUT], 90.0, Kind.VLLM),
        "hostile": ([HOSTILE] * 3, 90.0, Kind.VLLM),
        "four-ranks": (list(_ranks(40)), 60.0, Kind.VLLM),
        "two-ranks": (list(recorded("dp2-one-engine-frozen")), 30.0, Kind.VLLM),
        "balancer": (list(recorded("behind-least-conn-proxy")), 90.0, Kind.VLLM),
        "router": ([Reading()] * 5, 90.0, Kind.PROXY),
        "a-rather-long-name.of-a-model-server_in.some-data-centre-rack-42": (
            list(recorded("queue-full")),
            90.0,
            Kind.VLLM,
        ),
    }
    for name, (results, wait, kind) in scene.items():
        remember(memory, *results, backend=at(name, wait, kind))
    remember(memory, *day[:20], backend=at("abandoned", 90.0), polled_at=700.0)
