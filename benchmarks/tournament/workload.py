"""The servers of the tournament: what they are, what is asked of them, what befalls them; seeded.

Every workload is healthy by itself. What makes one hang is added in the same way to all of them.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.tournament.event import Event, HangKind, Happening, On, Spec
from benchmarks.tournament.job import Pace

HOUR = 3600.0
# A season ends with an hour in which nothing new hangs, so that each hang can be found or missed.
LAST = 1.0
DAY_BEGINS, DAY_ENDS = 7, 21

Random = random.Random
Making = Callable[[Random, float], Spec]


def chat(rng: Random, hours: float) -> Spec:
    """People talk by day, in bursts, and hang up when it takes too long; nights are idle."""
    return _spec(
        rng, hours, "chat, bursts and idle nights", [*_talk(rng, hours, rng.uniform(1, 6))]
    )


def batch(rng: Random, hours: float) -> Spec:
    """Jobs that fill every slot for hours, and a few people behind them."""
    pace = Pace(max_num_seqs=rng.choice([4, 8, 16]))
    events = [*_talk(rng, hours, 0.3)]
    at = rng.uniform(0, 2 * HOUR)
    while at < hours * HOUR:
        lasts = rng.uniform(0.5, 5) * HOUR
        target = rng.randint(3000, 12000)
        jobs = round(lasts * pace.steps_per_second * pace.max_num_seqs / target)
        events += [
            Event(at, Happening.REQUEST, prompt=rng.randint(100, 2000), target=target)
            for _ in range(jobs)
        ]
        at += lasts + rng.uniform(0.2, 3) * HOUR
    return _spec(rng, hours, "batch jobs fill the slots", events, pace=pace)


def long_prompts(rng: Random, hours: float) -> Spec:
    """Prompts of tens of thousands of tokens: minutes in which only KV usage moves."""
    pace = Pace(
        max_num_batched_tokens=rng.choice([2048, 8192]),
        prefill_tokens_per_second=rng.uniform(400, 1500),
    )
    events = [
        Event(
            at, Happening.REQUEST, prompt=rng.randint(20_000, 120_000), target=rng.randint(20, 600)
        )
        for at in _arrivals(rng, hours, 0.15)
    ]
    return _spec(rng, hours, "long prefills", events, pace=pace)


def coarse(rng: Random, hours: float) -> Spec:
    """Large blocks on slow machines: neighbouring pages are equal in a healthy prefill."""
    pace = Pace(
        max_num_seqs=4,
        max_num_batched_tokens=256,
        block_size=rng.choice([512, 1024, 2048]),
        num_gpu_blocks=400,
        steps_per_second=8.0,
        prefill_tokens_per_second=rng.uniform(25, 200),
    )
    events = [
        Event(at, Happening.REQUEST, prompt=rng.randint(2000, 16_000), target=rng.randint(20, 300))
        for at in _arrivals(rng, hours, 0.1)
    ]
    return _spec(rng, hours, "coarse blocks", events, pace=pace)


def slow(rng: Random, hours: float) -> Spec:
    """A few tokens a second."""
    pace = Pace(max_num_seqs=2, steps_per_second=rng.uniform(0.5, 5), prefill_tokens_per_second=300)
    return _spec(rng, hours, "slow decoding", [*_talk(rng, hours, 0.2)], pace=pace)


def scarce(rng: Random, hours: float) -> Spec:
    """Too little KV cache: running requests are preempted again and again."""
    pace = Pace(max_num_seqs=8, num_gpu_blocks=rng.randint(150, 300), steps_per_second=2.0)
    events = [
        Event(at, Happening.REQUEST, prompt=rng.randint(300, 1000), target=rng.randint(200, 1000))
        for at in _arrivals(rng, hours, 0.5)
    ]
    return _spec(rng, hours, "preemption storms", events, pace=pace)


def ranks(rng: Random, hours: float) -> Spec:
    """Two data-parallel engines behind one API server, the page in multiprocess mode."""
    events = [*_talk(rng, hours, rng.uniform(1, 4), ranks=2)]
    return _spec(rng, hours, "two DP ranks", events, ranks=2, has_start_time=False)


def carried_over(rng: Random, hours: float) -> Spec:
    """Several API servers whose folder of metrics is not wiped: pages outlive their process."""
    events = [*_talk(rng, hours, rng.uniform(0.5, 3))]
    events += [Event(at, Happening.RESTART) for at in _arrivals(rng, hours, 0.2 / 60)]
    label = "multiprocess, pages carried over"
    return _spec(rng, hours, label, events, has_start_time=False, wiped=False)


def sleeper(rng: Random, hours: float) -> Spec:
    """Put to sleep between uses, with requests in it or not."""
    events = [*_talk(rng, hours, 1.0)]
    events += [
        Event(at, Happening.SLEEP, seconds=rng.uniform(60, 5400))
        for at in _arrivals(rng, hours, 0.3 / 60)
    ]
    return _spec(rng, hours, "sleeps", events, developer_mode=True)


def trained(rng: Random, hours: float) -> Spec:
    """Paused with its requests in it while weights are changed: seconds, at times minutes."""
    events = [*_talk(rng, hours, 3.0)]
    events += [
        Event(
            at,
            Happening.PAUSE,
            seconds=rng.uniform(180, 600) if rng.random() < 0.2 else rng.uniform(5, 60),  # noqa: PLR2004
        )
        for at in _arrivals(rng, hours, 2 / 60)
    ]
    return _spec(rng, hours, "pauses for new weights", events, developer_mode=True)


def deferred(rng: Random, hours: float) -> Spec:
    """Requests wait for a remote KV cache or a grammar, for seconds, at times for many minutes."""
    events = [
        Event(
            at,
            Happening.REQUEST,
            prompt=rng.randint(200, 4000),
            target=rng.randint(50, 600),
            deferred=rng.choice([rng.uniform(0.5, 20), rng.uniform(20, 1500)]),
        )
        for at in _arrivals(rng, hours, 0.15)
    ]
    tells = rng.random() < 0.7  # noqa: PLR2004 -- releases from 0.20 on
    return _spec(rng, hours, "deferred waits", events, tells_reasons=tells)


def older(rng: Random, hours: float) -> Spec:
    """A release that keeps the gauges of requests whose clients have all hung up."""
    events = [*_talk(rng, hours, 0.3, impatient=0.3)]
    label = "older release, stale gauges"
    return _spec(rng, hours, label, events, keeps_gauges=True, tells_reasons=False)


WORKLOADS: tuple[Making, ...] = (
    *(chat, batch, batch, long_prompts, coarse, slow, scarce),
    *(ranks, carried_over, sleeper, trained, deferred, older),
)


def small_ones(seed: int, hours: float) -> list[Spec]:
    """Servers that are run on ``demo.vllm``'s own engine, token by token."""
    specs = []
    for i, making in enumerate((chat, batch, long_prompts, chat)):
        rng = random.Random(f"{seed}/simulated/{i}")  # noqa: S311 -- a simulation
        spec = making(rng, 24.0)
        noon = 12 * HOUR
        events = [
            event._replace(
                at=event.at - noon, target=min(event.target, 2000), prompt=min(event.prompt, 20_000)
            )
            for event in spec.events
            if noon <= event.at < noon + hours * HOUR and event.hang is None
        ]
        kind = (HangKind.RUNNING, HangKind.IDLE, HangKind.PREFILL, HangKind.DEAD)[i]
        events.append(Event(0.4 * hours * HOUR, Happening.HANG, hang=kind))
        pace = Pace(
            max_num_seqs=spec.pace.max_num_seqs,
            num_gpu_blocks=4000,
            steps_per_second=10.0,
            prefill_tokens_per_second=spec.pace.prefill_tokens_per_second,
        )
        specs.append(
            spec._replace(
                name=f"simulated-{i}",
                workload="on demo.vllm itself",
                seed=rng.getrandbits(32),
                hours=hours,
                pace=pace,
                events=tuple(sorted(events)),
                on=On.DEMO,
            )
        )
    return specs


def servers(seed: int, number: int, hours: float) -> list[Spec]:
    """So many servers, the workloads by turns, each with a season of so many hours."""
    specs = []
    for i in range(number):
        rng = random.Random(f"{seed}/{i}")  # noqa: S311 -- a simulation
        spec = WORKLOADS[i % len(WORKLOADS)](rng, hours)
        specs.append(spec._replace(name=f"server-{i}", seed=rng.getrandbits(32)))
    return specs


def _spec(
    rng: Random,
    hours: float,
    workload: str,
    events: list[Event],
    **particulars: Any,  # noqa: ANN401 -- any field of Spec
) -> Spec:
    number = particulars.get("ranks", 1)
    events = sorted([*events, *_troubles(rng, hours), *_hangs(rng, hours, number)])
    compiles = rng.random() < 0.4  # noqa: PLR2004 -- of all servers
    spec = Spec(
        name="",
        workload=workload,
        seed=0,
        hours=hours,
        pace=Pace(),
        events=tuple(events),
        load_seconds=rng.uniform(45, 240),
        first_step=rng.uniform(30, 110) if compiles else 0.0,
    )
    return spec._replace(**particulars)


def _troubles(rng: Random, hours: float) -> Iterator[Event]:
    """What befalls any server and passes: long steps, collections, planned restarts."""
    for at in _arrivals(rng, hours, 2 / 24 / 60):
        yield Event(at, Happening.COMPILE, seconds=rng.uniform(30, 110))
    for at in _arrivals(rng, hours, 3 / 24 / 60):
        yield Event(at, Happening.ENGINE_GC, seconds=rng.uniform(5, 40))
    for at in _arrivals(rng, hours, 3 / 24 / 60):
        yield Event(at, Happening.API_GC, seconds=rng.uniform(5, 40))
    for at in _arrivals(rng, hours, 1 / 24 / 60):
        yield Event(at, Happening.RESTART)


def _hangs(rng: Random, hours: float, number: int) -> Iterator[Event]:
    kinds = [kind for kind in HangKind if number > 1 or kind is not HangKind.ONE_RANK]
    at = rng.uniform(0.2, 24) * HOUR
    while at < (hours - LAST) * HOUR:
        yield Event(at, Happening.HANG, hang=rng.choice(kinds))
        at += rng.uniform(8, 30) * HOUR


def _talk(
    rng: Random, hours: float, a_minute: float, *, ranks: int = 1, impatient: float = 0.1
) -> Iterator[Event]:
    """Chat requests, ``a_minute`` by day; some clients hang up early, all do in the end."""
    for at in _arrivals(rng, hours, a_minute):
        hour = at / HOUR % 24
        if not DAY_BEGINS <= hour < DAY_ENDS and rng.random() < 0.98:  # noqa: PLR2004 -- at night
            continue
        early = rng.random() < impatient
        yield Event(
            at,
            Happening.REQUEST,
            seconds=rng.uniform(1, 15) if early else rng.uniform(60, 900),
            prompt=min(8000, round(rng.lognormvariate(6.2, 1.0)) + 1),
            target=min(2000, round(rng.lognormvariate(5.2, 0.8)) + 1),
            engine=rng.randrange(ranks),
        )


def _arrivals(rng: Random, hours: float, a_minute: float) -> Iterator[float]:
    at = rng.expovariate(a_minute / 60)
    while at < hours * HOUR:
        yield at
        at += rng.expovariate(a_minute / 60)
