"""Looks at every backend again and again: does it answer, what does it serve, what is said of it.

A look is GET /v1/models, which no engine works on. What the exporter says comes on top, where one
is configured: a frozen server goes on answering /v1/models.
"""

import asyncio
import json
import logging

from fleet.backend import Backend, Kind
from gateway.counts import Where
from gateway.fetch import Answer, fetch
from gateway.heads import Head
from gateway.mishap import outlived
from gateway.office import Office
from gateway.standing import Standing
from gateway.upstream import UpstreamError

MODELS = "/v1/models"
VERDICTS = "/api/backends"
LOOK_SECONDS = 5.0
OK = 200

log = logging.getLogger("gateway")


class Looks:
    """Goes round all backends, and asks the exporter. Belongs to the office's loop."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def run(self) -> None:
        """Look every ``look_every`` seconds, for ever."""
        while True:
            await self.once()
            await asyncio.sleep(self._office.settings.look_every)

    async def once(self) -> None:
        """Look at everything once."""
        await asyncio.gather(
            *(self.look(standing) for standing in self._office.standings), self.ask_exporter()
        )

    async def look(self, standing: Standing) -> None:
        """Look at one backend; what goes wrong with us is no harm to the others."""
        with outlived(self._office.counts, Where.LOOK, standing.backend.name):
            await self._look(standing)

    async def _look(self, standing: Standing) -> None:
        now = self._office.now()
        if standing.draining and now >= standing.drain_until:
            standing.draining = False  # whoever drained it has not come back to undrain it
        await self._office.backend_keys.read(standing.backend, LOOK_SECONDS)
        try:
            answer = await self.get(standing.backend, MODELS)
            cards = _cards(answer)
        except (UpstreamError, ValueError, RecursionError) as error:
            self._lost(standing, str(error))
            return
        if not standing.reachable:
            log.info("event=backend_up backend=%s", standing.backend.name)
        standing.models = frozenset(str(card["id"]) for card in cards)
        standing.model_cards = tuple(cards)
        standing.reachable = True
        if standing.failures and now >= standing.resting_until:
            standing.failures = 0

    async def get(self, backend: Backend, path: str) -> Answer:
        """What a server answers. Raises UpstreamError."""
        head = Head("GET", path, {}, "look").to(backend, self._office.backend_keys.of(backend), 0)
        return await fetch(self._office.upstreams, backend, head, b"", LOOK_SECONDS)

    def _lost(self, standing: Standing, why: str) -> None:
        if standing.reachable:
            log.warning('event=backend_down backend=%s why="%s"', standing.backend.name, why)
        standing.reachable = False

    async def ask_exporter(self) -> None:
        """Ask for its verdicts; while it says nothing, nothing that it said before counts."""
        url = self._office.settings.exporter
        if url is not None:
            with outlived(self._office.counts, Where.LOOK, "the exporter"):
                await self._verdicts(url)

    async def _verdicts(self, url: str) -> None:
        exporter = Backend("exporter", url, Kind.PROXY, wait=0.0, load_time=0.0)
        try:
            answer = await self.get(exporter, VERDICTS)
            said = _states(answer)
        except (UpstreamError, ValueError, RecursionError):
            said = {}
        for standing in self._office.standings:
            standing.verdict = said.get(standing.backend.name, "")


def _cards(answer: Answer) -> list[dict[str, object]]:
    """The models that a server lists. Raises ValueError where it lists none."""
    if answer.status != OK:
        raise ValueError(f"{MODELS} answered {answer.status}")
    found = json.loads(answer.body)
    cards = found.get("data") if isinstance(found, dict) else None
    if not isinstance(cards, list) or not all(isinstance(card, dict) for card in cards):
        raise ValueError(f"{MODELS} is no list of models")
    return [card for card in cards if isinstance(card.get("id"), str)]


def _states(answer: Answer) -> dict[str, str]:
    """The state of each backend that the exporter has fresh readings of."""
    if answer.status != OK:
        raise ValueError(f"{VERDICTS} answered {answer.status}")
    found = json.loads(answer.body)
    rows = found if isinstance(found, list) else []
    return {
        str(row["backend"]): str(row["state"])
        for row in rows
        if isinstance(row, dict) and "backend" in row and "state" in row and not row.get("stale")
    }
