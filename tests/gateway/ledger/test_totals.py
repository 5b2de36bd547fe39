"""Any order of deliveries, groups, kills, recoveries and take-overs: the totals are right.

Two gateways on hosts of their own share a database. What the database bills for a request is never
more than the journals said, never less than any group had committed, and in the end exactly that.
"""

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from gateway.bill import Admission, End, LegEnd
from gateway.ledger.admit import Asked
from gateway.ledger.gone import Gone
from gateway.ledger.journal import Journal, Slot
from gateway.ledger.writer import Writer
from tests.gateway.ledger.fakes import BrokenDatabase, Clock
from tests.gateway.ledger.making import T0, charged, closed, killed, opened, unequal

NAMES = ("r1", "r2")
PROMPT = 7
TAKEOVER = 15.0
hosts = st.sampled_from((0, 1))
names = st.sampled_from(NAMES)


class Host:
    """One host: a folder that stays, and a gateway that is killed and started again."""

    def __init__(self, database: BrokenDatabase, folder: Path) -> None:
        self._database, self._folder = database, folder
        self.clock = Clock()
        self.start()

    def start(self) -> None:
        self.journal = Journal(self._folder, segment_bytes=1 << 16)
        self.writer = Writer(self._database, self.journal, 0.0, wall=self.clock)
        self.gone = Gone(
            self._database,
            self._folder,
            self.journal.holder,
            TAKEOVER,
            wall=self.clock,
            monotonic=self.clock,
        )
        self.slots: dict[str, Slot] = {}

    def kill(self) -> None:
        killed(self.journal)
        self.start()


class Totals(RuleBasedStateMachine):
    template: Path

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="totals-"))
        shutil.copy(self.template, self.folder / "gateway.db")
        self.database = BrokenDatabase(f"sqlite:///{self.folder / 'gateway.db'}")
        self.hosts = [Host(self.database, self.folder / name) for name in ("a", "b")]
        self.said: Counter[str] = Counter()
        self.billed: Counter[str] = Counter()
        self.complete: set[str] = set()
        self.told_prompt: set[str] = set()

    def in_hand(self, host: int, name: str) -> Slot | None:
        """The slot of a request at a host, let in if it is not there and may be."""
        one = self.hosts[host]
        if name not in one.slots:
            for resume in (False, True):
                run = one.journal.run()
                future = one.writer.ask(Asked(opened(name), run[0], resume))
                one.writer.write()
                if future.result(0).admission == Admission.NEW:
                    one.slots[name] = one.journal.open(opened(name), run)
                    break
        return one.slots.get(name)

    @rule(host=hosts, name=names, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3))
    def deliver(self, host: int, name: str, sizes: list[int]) -> None:
        slot = self.in_hand(host, name)
        if slot is None:
            return
        # On a later run the server has read the answer so far as well.
        self.hosts[host].journal.prompt(slot, PROMPT, PROMPT + self.said[name])
        self.told_prompt.add(name)
        for size in sizes:
            self.hosts[host].journal.add(slot, range(size))
            self.said[name] += size

    @rule(host=hosts, name=names)
    def end_leg(self, host: int, name: str) -> None:
        slot = self.hosts[host].slots.get(name)
        if slot is not None:
            self.hosts[host].journal.leg_end(slot, LegEnd("gpu-a", PROMPT, 1, "reset", T0))

    @rule(host=hosts, name=names, end=st.sampled_from(End))
    def close(self, host: int, name: str, end: End) -> None:
        slot = self.in_hand(host, name)
        if slot is not None:
            del self.hosts[host].slots[name]
            self.hosts[host].journal.close(slot, closed(end, prompt=PROMPT, completion=slot.tokens))

    @rule(host=hosts)
    def commit(self, host: int) -> None:
        self.hosts[host].writer.write()

    @rule(host=hosts)
    def try_to_commit_in_vain(self, host: int) -> None:
        self.database.broken = True
        self.hosts[host].writer.write()
        self.database.broken = False

    @rule(host=hosts)
    def kill(self, host: int) -> None:
        self.hosts[host].kill()

    @rule(host=hosts)
    def recover(self, host: int) -> None:
        self.hosts[host].gone.recover()

    @rule(host=hosts, seconds=st.sampled_from((1.0, TAKEOVER)))
    def look_after_others(self, host: int, seconds: float) -> None:
        self.hosts[host].gone.take_over()
        self.hosts[host].clock.now += seconds
        self.hosts[host].gone.take_over()

    @invariant()
    def totals_only_grow_and_never_count_twice(self) -> None:
        records = charged(self.database)
        for name, record in records.items():
            assert self.billed[name] <= record.completion <= self.said[name]
            assert record.prompt in (None, PROMPT)
            self.billed[name] = record.completion
            assert record.state == "complete" or name not in self.complete
            if record.state == "complete":
                self.complete.add(name)
        assert unequal(self.database) == []

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        for host in self.hosts:
            assert host.writer.write()
            host.kill()
            host.gone.recover()
            host.gone.recover()
        for _ in range(2):
            self.hosts[0].gone.take_over()
            self.hosts[0].clock.now += TAKEOVER
        records = charged(self.database)
        assert {name: record.completion for name, record in records.items()} == {
            name: self.said[name] for name in records
        }
        assert {name for name, tokens in self.said.items() if tokens} <= records.keys()
        for name in self.told_prompt:
            assert records[name].prompt == PROMPT
        assert {record.holder for record in records.values()} <= {None}
        assert {record.state for record in records.values()} <= {
            "complete",
            "partial",
            "failed",
            "refused",
        }
        self.database.close()
        for host in self.hosts:
            host.journal.remove()
        shutil.rmtree(self.folder)


def test_no_history_loses_a_token_or_counts_one_twice(tmp_path: Path) -> None:
    Totals.template = tmp_path / "template.db"
    BrokenDatabase(f"sqlite:///{Totals.template}").close()
    run_state_machine_as_test(
        Totals,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
