"""What the server answers to, short of HTTP itself."""

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import count
from urllib.parse import parse_qs

from demo.vllm import journal
from demo.vllm.ask import Ask, Kind, ask
from demo.vllm.engine import Engine
from demo.vllm.fault import Die, Fault, fault
from demo.vllm.fault import Mute as MuteFault
from demo.vllm.loop import EngineLoop, Stream
from demo.vllm.mute import Mute
from demo.vllm.page import only, page
from demo.vllm.process import python_page, start_time
from demo.vllm.refusal import bad_request, engine_dead
from demo.vllm.reply import Json
from demo.vllm.settings import Settings
from demo.vllm.template import Shape, recorded
from demo.vllm.traffic import Exchange, Traffic
from demo.vllm.visits import Visits

VERSION = "0.32.0"


class Api:
    """The engines, the page, and the counts of one server.

    ``report`` gets one line per fault, ``died`` is called when the engines are killed.
    """

    def __init__(
        self, settings: Settings, report: Callable[[str], None], died: Callable[[], None]
    ) -> None:
        self.settings = settings
        self.mute = Mute()
        self.visits = Visits()
        engines = [Engine(settings.limits) for _ in range(settings.data_parallel_size)]
        self.loop = EngineLoop(engines)
        self._report = report
        self._died = died
        self._numbers = count()
        self._traffic = Traffic()
        self._python = python_page()
        self._page = page(recorded(settings.shape), settings, created=time.time())

    def metrics(self, query: str, *, mounted: bool) -> str:
        """The page; only the path with the slash (``mounted``) looks at the query."""
        names = parse_qs(query).get("name[]", []) if mounted else []
        if names and self.settings.shape is Shape.MULTIPROCESS:
            return ""
        text = self._page.text(self.loop.published(), self._traffic.tallied(), self._python())
        return only(text, set(names)) if names else text

    def models(self) -> Json:
        """What ``/v1/models`` lists."""
        model = self.settings.model
        entry = {
            "id": model,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "vllm",
            "root": model,
            "parent": None,
            "max_model_len": self.settings.limits.max_model_len,
        }
        return {"object": "list", "data": [entry]}

    def state(self) -> Json:
        """What no real server tells."""
        pairs = zip(self.loop.occupancy(), self.loop.published(), strict=True)
        return {
            "model": self.settings.model,
            "pid": os.getpid(),
            "start_time": start_time(),
            "muted_seconds": self.mute.seconds,
            "engines": [
                {"engine": str(number)}
                | asdict(occupancy)
                | {"generation_tokens": published.generation_tokens}
                for number, (occupancy, published) in enumerate(pairs)
            ],
            "requests": [
                {"path": path, "user_agent": user_agent, "count": number}
                for (path, user_agent), number in sorted(self.visits.counts().items())
            ],
        }

    def ask(self, kind: Kind, body: bytes) -> Ask:
        """Read a request for generation; Refusal says what is wrong with it."""
        if self.loop.dead:
            raise engine_dead()
        return ask(kind, body, self.settings.model, self.settings.limits.max_model_len)

    def submit(self, wanted: Ask, rank: str | None) -> list[Stream]:
        """Give it to the engines; ``rank`` is what ``X-data-parallel-rank`` says."""
        engine = self._engine(rank)
        ids = f"request-{next(self._numbers)}"
        return [self.loop.submit(request, engine) for request in wanted.requests(ids)]

    def act(self, name: str, body: bytes) -> Json:
        """Carry out a fault; LookupError or ValueError says why it cannot be."""
        wanted = fault(name, body, self.settings.data_parallel_size)
        if isinstance(wanted, MuteFault):
            self.mute.close(wanted.seconds)
        else:
            self.loop.act(wanted)
        self._report(journal.line("fault", fault=name, **_fields(wanted)))
        if isinstance(wanted, Die):
            self._died()
        return self.state()

    def answered(self, exchange: Exchange) -> None:
        """An exchange is over."""
        self._traffic.add(exchange, time.time())

    def _engine(self, rank: str | None) -> int | None:
        if rank is None or not rank.isdecimal():
            return None
        engines = self.settings.data_parallel_size
        if int(rank) >= engines:
            raise bad_request(f"data_parallel_rank {rank} is out of range [0, {engines}).")
        return int(rank)


def _fields(wanted: Fault) -> dict[str, object]:
    return {name: "all" if value is None else value for name, value in asdict(wanted).items()}
