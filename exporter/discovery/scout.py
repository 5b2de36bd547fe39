"""Looks one source up, at once and then every so often, whatever other sources do."""

import json
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exporter.discovery.dns_sd import DnsSD
from exporter.discovery.file_sd import FileSD
from exporter.discovery.target import Finding
from fleet.discovery import Files, Source

log = logging.getLogger(__name__)


class Scout:
    """One source's thread. A resolver that hangs holds up only its own source."""

    def __init__(
        self,
        source: Source,
        changed: Callable[[], None],
        known: Mapping[Any, Any] | None = None,
    ) -> None:
        """``changed`` is called from the thread; ``known`` is what predecessors found out."""
        self.source = source
        self._changed = changed
        lookup = source.lookup
        self._finder = FileSD(lookup, known) if isinstance(lookup, Files) else DnsSD(lookup, known)
        self._wishes: queue.SimpleQueue[threading.Event | None] = queue.SimpleQueue()
        self._finding = Finding(self._finder.so_far())
        self._failures = 0
        self._has_looked = False
        self.thread = threading.Thread(
            target=self._run, name=f"discovery-{source.name}", daemon=True
        )

    @property
    def finding(self) -> Finding:
        """What the last look gave."""
        return self._finding

    @property
    def failures(self) -> int:
        """Looks so far of which a part failed."""
        return self._failures

    @property
    def has_looked(self) -> bool:
        """Whether the first look is over."""
        return self._has_looked

    @property
    def known(self) -> Mapping[Any, Any]:
        """What to hand on to a successor."""
        return self._finder.known

    @property
    def has_ended(self) -> bool:
        """Whether the thread was started and does not run any more."""
        return self.thread.ident is not None and not self.thread.is_alive()

    def start(self) -> threading.Event:
        """Start the thread. The event is set when the first look is over."""
        first = self.look_now()
        self.thread.start()
        return first

    def look_now(self) -> threading.Event:
        """Look as soon as the look under way is over. The event is set when that is done."""
        done = threading.Event()
        self._wishes.put(done)
        return done

    def stop(self) -> None:
        """End the thread after the look under way, without waiting for it."""
        self._wishes.put(None)

    def _run(self) -> None:
        while True:
            try:
                done = self._wishes.get(timeout=self.source.refresh)
            except queue.Empty:
                done = threading.Event()
            if done is None:
                return
            self._look()
            done.set()

    def _look(self) -> None:
        before = self._finding
        try:
            finding = self._finder.look()
        except Exception:
            # A bug in one look must not end the search.
            log.exception("event=discovery_failed source=%s", self.source.name)
            finding = Finding(before.targets, ("the look failed here, see the log",), before.notes)
        self._failures += bool(finding.failures)
        self._finding = finding
        self._tell("discovery_failed", finding.failures, before.failures)
        self._tell("discovery_without", finding.notes, before.notes)
        if before.failures and not finding.failures:
            log.info("event=discovery_recovered source=%s", self.source.name)
        is_first, self._has_looked = not self._has_looked, True
        if is_first or finding.targets != before.targets:
            self._changed()

    def _tell(self, event: str, sentences: Sequence[str], told: Sequence[str]) -> None:
        for sentence in sentences:
            if sentence not in told:
                why = json.dumps(sentence, ensure_ascii=False)
                log.warning("event=%s source=%s why=%s", event, self.source.name, why)
