"""Complete answers are kept for their callers, for a while, and never too many of them."""

from gateway.finished import OVERHEAD, Finished
from gateway.transcript import Transcript

NOW = 100.0


def ended(name: str) -> Transcript:
    transcript = Transcript(name, 0)
    transcript.add(f"id: {name}.1\ndata: [DONE]\n\n".encode(), 1)
    transcript.pack()
    return transcript


def kept(finished: Finished) -> list[str]:
    names = (f"req-{number}" for number in range(10))
    return [name for name in names if finished.find("alice", name, NOW)]


def test_it_is_its_callers_alone_for_a_while() -> None:
    finished, one = Finished(60.0), ended("req-1")
    finished.keep("alice", one, NOW)
    for _ in range(2):
        assert finished.find("alice", "req-1", NOW + 59.9) is one
    assert finished.find("bob", "req-1", NOW) is None
    assert finished.find("alice", "req-2", NOW) is None
    assert finished.find("alice", "req-1", NOW + 60.0) is None


def test_what_is_over_is_forgotten_and_nothing_else() -> None:
    finished = Finished(60.0)
    for number in range(3):
        finished.keep("alice", ended(f"req-{number}"), NOW + number)
    finished.forget(NOW + 61.0)
    assert kept(finished) == ["req-2"]
    finished.forget(NOW + 1000.0)
    assert kept(finished) == []


def test_there_are_never_too_many() -> None:
    finished = Finished(60.0, most=2)
    for number in range(4):
        finished.keep("alice", ended(f"req-{number}"), NOW)
    assert kept(finished) == ["req-2", "req-3"]


def test_they_are_never_too_large() -> None:
    size = ended("req-0").size + OVERHEAD
    finished = Finished(60.0, most_bytes=2 * size)
    for number in range(5):
        finished.keep("alice", ended(f"req-{number}"), NOW)
    assert kept(finished) == ["req-3", "req-4"]
    # What is gone makes room.
    finished.forget(NOW + 60.0)
    for number in range(2):
        finished.keep("alice", ended(f"req-{number}"), NOW)
    assert kept(finished) == ["req-0", "req-1"]


def test_the_same_one_counts_once() -> None:
    size = ended("req-0").size + OVERHEAD
    finished = Finished(60.0, most_bytes=2 * size)
    for _ in range(5):
        finished.keep("alice", ended("req-1"), NOW)
    finished.keep("alice", ended("req-2"), NOW)
    assert kept(finished) == ["req-1", "req-2"]
