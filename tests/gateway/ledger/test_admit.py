"""Who is let in, on both kinds of database."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from gateway.bill import Admission, End, Opened
from gateway.ledger import book
from gateway.ledger.admit import Answer, Asked, admit, stage, would_admit
from gateway.ledger.database import Database
from gateway.ledger.record import Booking, State
from tests.gateway.ledger.making import T0, Charged, charged, opened

AT_ONCE = 8


def ask(
    database: Database, one: Opened, run: str, *, holder: str = "g1", resume: bool = False
) -> Answer:
    with database.write() as connection:
        return admit(connection, holder, [Asked(one, run, resume)])[0]


def end(database: Database, one: Opened, run: str, state: State, tokens: int = 0) -> None:
    with database.write() as connection:
        book.book(connection, [Booking(one, run, 7, tokens, state, "", T0 + 1)])


def test_a_key_is_let_in_once_and_then_is_busy_until_it_has_ended(database: Database) -> None:
    first, again = opened("r1", key="k"), opened("r2", key="k")
    assert ask(database, first, "a-1").admission == Admission.NEW
    assert ask(database, again, "a-2", holder="g2").admission == Admission.BUSY
    assert ask(database, first, "a-3").admission == Admission.BUSY
    end(database, first, "a-1", State.COMPLETE, 9)
    answer = ask(database, again, "a-4", holder="g2")
    assert answer.admission == Admission.AGAIN
    assert answer.record
    assert (answer.record.state, answer.record.completion_tokens) == (State.COMPLETE, 9)
    assert charged(database) == {"r1": Charged("complete", 7, 9, None)}


def test_a_run_that_was_let_in_though_it_was_not_told_so_is_let_in(database: Database) -> None:
    one = opened("r1", key="k")
    for _ in range(2):
        assert ask(database, one, "a-1") == Answer(Admission.NEW)
    end(database, one, "a-1", State.FAILED)
    # Another gateway has ended it meanwhile: it is in hand again, and nobody else's.
    assert ask(database, one, "a-1").admission == Admission.NEW
    assert ask(database, opened("r2", key="k"), "b-1", holder="g2").admission == Admission.BUSY
    end(database, one, "a-1", State.PARTIAL, 5)
    for _ in range(2):
        assert ask(database, one, "a-2", resume=True).admission == Admission.NEW
    assert charged(database) == {"r1": Charged("partial", 7, 5, "g1")}


def test_keys_of_other_callers_are_other_keys(database: Database) -> None:
    assert ask(database, opened("r1", key="k"), "a-1").admission == Admission.NEW
    other = opened("r2", key="k", caller="umbrella")
    assert ask(database, other, "a-2").admission == Admission.NEW


@pytest.mark.parametrize("state", [State.REFUSED, State.FAILED])
def test_what_was_free_may_try_again(database: Database, state: State) -> None:
    first, again = opened("r1", key="k"), opened("r2", key="k")
    ask(database, first, "a-1")
    end(database, first, "a-1", state)
    assert ask(database, again, "a-2", holder="g2").admission == Admission.NEW
    assert charged(database) == {"r2": Charged("open", None, 0, "g2")}
    # What is known of the first one, told once more, changes nothing.
    end(database, first, "a-1", state)
    end(database, again, "a-2", State.COMPLETE, 4)
    assert charged(database) == {"r2": Charged("complete", 7, 4, None)}


def test_an_interrupted_one_is_gone_on_with_once_and_its_prompt_stays_charged_once(
    database: Database,
) -> None:
    one = opened()
    ask(database, one, "a-1")
    end(database, one, "a-1", State.PARTIAL, 5)
    assert ask(database, one, "a-2").admission == Admission.AGAIN
    answer = ask(database, one, "a-3", holder="g2", resume=True)
    assert answer.admission == Admission.NEW
    assert answer.record
    assert answer.record.run == "a-1"
    assert ask(database, one, "a-4", resume=True).admission == Admission.BUSY
    end(database, one, "a-3", State.COMPLETE, 6)
    assert charged(database) == {"r1": Charged("complete", 7, 11, None)}
    assert ask(database, one, "a-5", resume=True).admission == Admission.AGAIN


def test_of_many_gateways_at_the_same_time_one_lets_it_in(
    database: Database, database_url: str
) -> None:
    others = [Database(database_url) for _ in range(AT_ONCE)]
    for number in range(5):
        start = Barrier(AT_ONCE)

        def try_it(which: int, number: int = number, start: Barrier = start) -> Admission:
            start.wait()
            one = opened(f"r{number}-{which}", key=f"k{number}")
            run = f"{which}-{number}"
            return ask(others[which], one, run, holder=f"g{which}").admission

        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(try_it, range(AT_ONCE)))
        assert sorted(answers) == [Admission.BUSY] * (AT_ONCE - 1) + [Admission.NEW]
    assert len(charged(database)) == 5
    for other in others:
        other.close()


def test_a_group_lets_in_each_key_once(database: Database) -> None:
    asked = [Asked(opened(f"r{n}", key=f"k{n % 3}"), f"a-{n}") for n in range(9)]
    with database.write() as connection:
        answers = admit(connection, "g1", asked)
    assert [one.admission for one in answers].count(Admission.NEW) == 3
    assert len(charged(database)) == 3


def test_words_that_no_database_takes_are_let_in(database: Database) -> None:
    odd = Opened("r\x00", "acme", "k\ud800", "m" * 5000, "/v1/x", T0)
    assert ask(database, odd, "a-1").admission == Admission.NEW
    assert ask(database, odd, "a-2").admission == Admission.BUSY
    end(database, odd, "a-1", State.COMPLETE, 3)
    (record,) = charged(database).values()
    assert record.completion == 3


def test_what_would_be_said_and_how_it_ended_is_told_without_writing_anything(
    database: Database,
) -> None:
    one, same_key, other = opened("r1", key="k"), opened("r2", key="k"), opened("r3", caller="x")

    def told(who: Opened) -> tuple[Admission, End | Admission]:
        with database.read() as connection:
            return would_admit(connection, who), stage(connection, who.caller, who.request_id)

    assert [told(each) for each in (one, same_key, other)] == [(Admission.NEW, Admission.NEW)] * 3
    assert charged(database) == {}
    ask(database, one, "a-1")
    assert told(one) == (Admission.BUSY, Admission.BUSY)
    assert told(same_key) == (Admission.BUSY, Admission.NEW)
    end(database, one, "a-1", State.FAILED)
    assert told(one) == (Admission.NEW, End.FAILED)
    ask(database, one, "a-2")
    end(database, one, "a-2", State.PARTIAL, 5)
    assert told(one) == (Admission.AGAIN, End.PARTIAL)
    assert told(same_key) == (Admission.AGAIN, Admission.NEW)
    ask(database, one, "a-3", resume=True)
    assert told(one) == (Admission.BUSY, Admission.BUSY)
    end(database, one, "a-3", State.COMPLETE, 6)
    assert told(one) == (Admission.AGAIN, End.COMPLETE)
    assert told(other) == (Admission.NEW, Admission.NEW)
