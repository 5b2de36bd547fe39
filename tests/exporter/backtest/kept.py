"""A server's life as its scrapes would have left it in a Prometheus: samples, or OpenMetrics."""

import re
from collections.abc import Collection, Iterable, Iterator

from exporter.backtest.looks import Series
from exporter.backtest.target import Target
from tests.fleet.pages import page

START = 1_760_000_400  # 2025-10-09T09:00:00Z
BORN = START - 86_400.0
LINE = re.compile(r"(?P<name>[\w:]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
FRESH = {
    "running": 0.0,
    "waiting": 0.0,
    "capacity": 0.0,
    "deferred": 0.0,
    "kv": 0.0,
    "steps": 0.0,
    "generated": 0.0,
    "prompt": 0.0,
    "queries": 0.0,
}


class Server:
    """One scraped server; each act lasts some seconds, and every scrape of it shows the act.

    Times are those of scrapes: the first is at ``at``.
    """

    def __init__(
        self,
        instance: str,
        *,
        at: int = START,
        interval: int = 15,
        engines: Iterable[str] = ("0",),
        born: float | None = BORN,
    ) -> None:
        self.target = Target((("instance", instance), ("job", "vllm")))
        self.at = at
        self._own = f'instance="{instance}",job="vllm"'
        self._interval = interval
        self._born = born
        self._engines = {name: dict(FRESH) for name in engines}
        self._kept: dict[str, list[tuple[int, str]]] = {}

    def busy(self, seconds: int, *, hung: Collection[str] = ()) -> None:
        """Tokens come out of every engine but those that hang."""
        for _ in range(seconds // self._interval):
            for name, engine in self._engines.items():
                if name not in hung:
                    engine |= {"running": 2.0, "waiting": 1.0, "capacity": 1.0, "deferred": 0.0}
                    engine["kv"] = 0.25
                    for counter, more in (("steps", 50), ("generated", 100), ("prompt", 10)):
                        engine[counter] += more
            self._scraped()

    def hung(self, seconds: int) -> None:
        """Nothing moves in any engine; what was running goes on to be shown as running."""
        self.busy(seconds, hung=self._engines)

    def idle(self, seconds: int) -> None:
        """Nothing to do."""
        for engine in self._engines.values():
            engine |= {"running": 0.0, "waiting": 0.0, "capacity": 0.0, "deferred": 0.0, "kv": 0.0}
        self.hung(seconds)

    def prefill(self, seconds: int) -> None:
        """One long prompt is read: nothing moves but KV usage, block by block."""
        for i in range(seconds // self._interval):
            for engine in self._engines.values():
                engine |= {"running": 1.0, "waiting": 0.0, "capacity": 0.0, "kv": 0.01 * (i + 1)}
            self._scraped()

    def deferred(self, seconds: int) -> None:
        """All that waits, waits for something outside the engine."""
        for engine in self._engines.values():
            engine |= {"running": 0.0, "waiting": 2.0, "capacity": 0.0, "deferred": 2.0, "kv": 0.5}
        self.hung(seconds)

    def failing(self, seconds: int) -> None:
        """Scrapes fail."""
        for _ in range(seconds // self._interval):
            self._keep(f"up{{{self._own}}}", "0")
            self.at += self._interval

    def scraped_every(self, interval: int) -> None:
        """Another scrape interval from now on."""
        self._interval = interval

    def away(self, seconds: int) -> None:
        """Nobody scrapes."""
        self.at += seconds

    def restarted(self, born: float | None) -> None:
        """Another process, from the next scrape on."""
        self._born = born
        self._engines = {name: dict(FRESH) for name in self._engines}

    @property
    def series(self) -> list[Series]:
        """What a range selector gives."""
        return [
            Series(labels(name), [(float(at), float(value)) for at, value in samples])
            for name, samples in self._kept.items()
        ]

    @property
    def openmetrics(self) -> str:
        """What promtool makes blocks of, without its last line."""
        return "".join(
            f"{name} {value} {at}\n"
            for name, samples in self._kept.items()
            for at, value in samples
        )

    def _scraped(self) -> None:
        self._keep(f"up{{{self._own}}}", "1")
        for series, value in lines(page(self._engines, self._born), self._own):
            self._keep(series, value)
        self.at += self._interval

    def _keep(self, series: str, value: str) -> None:
        self._kept.setdefault(series, []).append((self.at, value))


def lines(text: str, own: str) -> Iterator[tuple[str, str]]:
    """The series of a page with the target's ``own`` labels added, each with its value."""
    for line in text.splitlines():
        found = LINE.fullmatch(line)
        if found is not None:
            written = ",".join(filter(None, (found["labels"], own)))
            yield f"{found['name']}{{{written}}}", found["value"]


def labels(series: str) -> dict[str, str]:
    """The labels of a series as text, its name among them."""
    name, _, written = series.partition("{")
    return {"__name__": name, **dict(re.findall(r'(\w+)="([^"]*)"', written))}
