"""What it costs to write a delivered token down: microseconds of one ``add``.

python -m benchmarks.gateway.journal [FOLDER]
"""

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gateway.bill import Closed, End, Opened
from gateway.ledger.journal import Journal, Slot

STREAMS = 1000
ROUNDS = 200
SIZES = (1, 4, 16)


def main(argv: Sequence[str]) -> int:
    """Print one line per number of ids in an ``add``."""
    parent = Path(argv[0]) if argv else None
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        journal = Journal(Path(folder) / "journal")
        for size in SIZES:
            slots = [journal.open(_opened(number), journal.run()) for number in range(STREAMS)]
            print(f"ids={size} {_measured(journal, slots, list(range(1000, 1000 + size)))}")
            for slot in slots:
                journal.close(slot, Closed(End.COMPLETE, "stop", 10, ROUNDS * size, 0.0))
            began = time.perf_counter()
            for slot in slots:
                journal.release(slot)
            wiping = (time.perf_counter() - began) / STREAMS
            print(f"ids={size} wipe_us={wiping * 1e6:.1f} journal_mib={journal.size >> 20}")
        journal.remove()
    return 0


def _measured(journal: Journal, slots: Sequence[Slot], ids: Sequence[int]) -> str:
    times = []
    cpu = time.process_time()
    began = time.perf_counter()
    for _ in range(ROUNDS):
        for slot in slots:
            journal.add(slot, ids)
    mean = (time.perf_counter() - began) / ROUNDS / len(slots)
    cpu = (time.process_time() - cpu) / ROUNDS / len(slots)
    for _ in range(ROUNDS // 10):
        for slot in slots:
            before = time.perf_counter()
            journal.add(slot, ids)
            times.append(time.perf_counter() - before)
    times.sort()
    p50, p99, longest = (times[int(len(times) * share)] for share in (0.5, 0.99, 0.99999))
    return (
        f"add_us={mean * 1e6:.2f} cpu_us={cpu * 1e6:.2f} "
        f"p50_us={p50 * 1e6:.2f} p99_us={p99 * 1e6:.2f} p99.999_us={longest * 1e6:.0f}"
    )


def _opened(number: int) -> Opened:
    name = f"request-{number}"
    return Opened(name, "caller", name, "model", "/v1/chat/completions", 0.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
