"""The text of ``/metrics``: a recorded page with other values."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from demo.vllm.number import exposed
from demo.vllm.series import (
    STEP_GAUGES,
    Key,
    engine_series,
    traffic_children,
    traffic_series,
)
from demo.vllm.settings import Settings
from demo.vllm.tally import Published
from demo.vllm.template import Family, Shape
from demo.vllm.traffic import Tallied

# These families have all lines of one engine before those of the next; others alternate.
ENGINE_BY_ENGINE = frozenset({"vllm:num_requests_waiting_by_reason"})


@dataclass(frozen=True)
class Row:
    """A line of an engine, ready but for its value; ``engine`` None where it has no such label."""

    text: str
    engine: int | None
    key: Key
    value: float


@dataclass(frozen=True)
class Block:
    """One family of the page; ``rows`` only where they are known beforehand."""

    family: Family
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Page:
    """Everything about the page that stays the same as long as the server runs.

    ``created`` is the wall clock time, in seconds, at which the engine's series came to be.
    """

    shape: Shape
    created: float
    blocks: tuple[Block, ...]

    def text(self, engines: Sequence[Published], tallied: Tallied, python: str) -> str:
        """The page as it is now; ``python`` is the part that Python's own collectors write."""
        values = [engine_series(published) for published in engines]
        traffic = traffic_series(tallied)
        children = traffic_children(tallied)
        parts = [] if self.shape is Shape.MULTIPROCESS else [python]
        for block in self.blocks:
            if block.family.name.startswith("http_"):
                parts += self._traffic(block, traffic, children, tallied.created)
            elif self._hidden(block, engines):
                parts.append(block.family.header)
            else:
                parts.append(block.family.header)
                parts += (self._line(row, values) for row in block.rows)
        return "".join(parts)

    def _hidden(self, block: Block, engines: Sequence[Published]) -> bool:
        """In multiprocess mode a gauge is absent until it is first set."""
        fresh = not any(published.stepped for published in engines)
        return self.shape is Shape.MULTIPROCESS and fresh and block.family.name in STEP_GAUGES

    def _line(self, row: Row, values: Sequence[Mapping[Key, float]]) -> str:
        known = {} if row.engine is None else values[row.engine]
        value = self.created if row.key[0].endswith("_created") else known.get(row.key, row.value)
        return f"{row.text} {exposed(value)}\n"

    def _traffic(
        self,
        block: Block,
        series: Mapping[Key, float],
        children: Mapping[str, list[dict[str, str]]],
        created: Mapping[str, float],
    ) -> Iterator[str]:
        family = block.family
        subjects = children.get(family.name) or children.get(_owner(family.name), [])
        if subjects or (self.shape is Shape.SINGLE and not family.created):
            yield family.header
        for subject in subjects:
            for line in family.lines:
                labels = tuple((name, subject.get(name, value)) for name, value in line.labels)
                if family.created:
                    value = created.get(subject.get("handler", ""), self.created)
                else:
                    value = series[line.sample, labels]
                yield f"{replace(line, labels=labels).text()} {exposed(value)}\n"


def page(recorded: Iterable[Family], settings: Settings, created: float) -> Page:
    """Fit a recorded page to a server: its model, its engines, its cache."""
    limits = settings.limits
    cache = {
        "block_size": str(limits.block_size),
        "effective_attention_block_size": str(limits.block_size),
        "kv_cache_max_concurrency": str(
            limits.num_gpu_blocks * limits.block_size / limits.max_model_len
        ),
        "kv_cache_size_tokens": str(limits.num_gpu_blocks * limits.block_size),
        # Of all engines together, unlike the tokens above.
        "num_gpu_blocks": str(limits.num_gpu_blocks * settings.data_parallel_size),
    }
    return Page(
        settings.shape,
        created,
        tuple(Block(family, tuple(_rows(family, settings, cache))) for family in recorded),
    )


def only(text: str, names: Collection[str]) -> str:
    """What ``?name[]=`` leaves of a page: samples of exactly these names, under their headers."""
    kept: list[str] = []
    header: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("# HELP "):
            header = [line]
        elif line.startswith("# TYPE "):
            header.append(line)
        elif line.partition("{")[0].partition(" ")[0] in names:
            kept += (*header, line)
            header = []
    return "".join(kept)


def _rows(family: Family, settings: Settings, cache: Mapping[str, str]) -> Iterator[Row]:
    if family.name.startswith("http_"):
        return
    numbers = range(settings.data_parallel_size)
    if family.kind == "histogram" or family.name in ENGINE_BY_ENGINE:
        pairs = [(line, engine) for engine in numbers for line in family.lines]
    else:
        pairs = [(line, engine) for line in family.lines for engine in numbers]
    for line, engine in pairs:
        of_engine = "engine" in dict(line.labels)
        if engine and not of_engine:
            continue
        labels = {"engine": str(engine), "model_name": settings.model}
        if family.name == "vllm:cache_config_info":
            labels |= cache
        key = (line.sample, line.without("engine", "model_name"))
        yield Row(line.text(**labels), engine if of_engine else None, key, line.value)


def _owner(created: str) -> str:
    """The family that a ``_created`` family belongs to."""
    base = created.removesuffix("_created")
    return f"{base}_total" if base == "http_requests" else base
