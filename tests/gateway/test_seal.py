import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.seal import LONGEST, NotGood, Opened, Seal, Ticket, Why

OLD, NEW, OTHER = bytes(32), bytes(range(32)), b"x" * 32
NOW = 1_700_000_000.0
GOOD_FOR = 600.0
URL_SAFE = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


def seal(*keys: bytes) -> Seal:
    return Seal(keys or (NEW,), GOOD_FOR)


def test_a_token_names_what_is_kept_until_it_expires() -> None:
    token = seal().token("alice", NOW)
    just_before = NOW + GOOD_FOR - 0.001
    assert seal().open(token.text, "alice", just_before) == Opened(token.id, NOW + GOOD_FOR)
    assert seal().open(token.text, "alice", NOW + GOOD_FOR) == NotGood(Why.EXPIRED)


def test_a_token_is_of_no_use_to_another_caller_even_when_it_has_expired() -> None:
    token = seal().token("alice", NOW)
    for now in (NOW, NOW + GOOD_FOR):
        assert seal().open(token.text, "bob", now) == NotGood(Why.ANOTHER_CALLER)


def test_a_token_fits_a_header_and_a_url_whoever_the_caller_is() -> None:
    text = seal().token("é" * 5_000, NOW).text
    assert len(text) < 300
    assert set(text) <= URL_SAFE


def test_two_tokens_are_never_alike() -> None:
    tokens = [seal().token("alice", NOW) for _ in range(100)]
    assert len({token.id for token in tokens}) == len({token.text for token in tokens}) == 100


def test_the_first_key_seals_and_all_open() -> None:
    old = seal(OLD).token("alice", NOW)
    new = seal(NEW, OLD).token("alice", NOW)
    assert isinstance(seal(NEW, OLD).open(old.text, "alice", NOW), Opened)
    assert isinstance(seal(NEW).open(new.text, "alice", NOW), Opened)
    assert seal(NEW).open(old.text, "alice", NOW) == NotGood(Why.UNKNOWN_KEY)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("r1.", id="the prefix alone"),
        pytest.param("r2." + "A" * 80, id="another version"),
        pytest.param("r1.é", id="not ASCII"),
        pytest.param("r1.A", id="no whole byte"),
        pytest.param("r1.AB", id="bits after the last byte"),
        pytest.param("r1.AAAA AAAA", id="a space"),
        pytest.param("r1.AAAA====", id="padding"),
        pytest.param("r1." + "A" * LONGEST, id="too long"),
    ],
)
def test_what_is_no_token_is_not_good(text: str) -> None:
    refused = seal().open(text, "alice", NOW)
    assert isinstance(refused, NotGood)
    assert refused.why in (Why.MALFORMED, Why.UNKNOWN_KEY)
    assert refused.status == 400


@given(place=st.integers(0, 1000), by=st.integers(1, 63))
def test_a_token_with_any_character_changed_is_not_good(place: int, by: int) -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    text = seal().token("alice", NOW).text
    at = 3 + place % (len(text) - 3)
    changed = letters[(letters.index(text[at]) + by) % 64]
    assert isinstance(seal().open(text[:at] + changed + text[at + 1 :], "alice", NOW), NotGood)


def test_a_token_has_one_way_to_be_written() -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    text = seal().token("alice", NOW).text
    written = [
        last for last in letters if isinstance(seal().open(text[:-1] + last, "alice", NOW), Opened)
    ]
    assert written == [text[-1]]


def test_a_ticket_is_for_one_request_of_one_caller_until_it_expires() -> None:
    text = seal().ticket("key-1", "req-1", NOW)
    assert set(text) <= URL_SAFE
    assert seal().open_ticket(text, "req-1", NOW) == Ticket("key-1", "req-1", NOW + GOOD_FOR)
    assert seal().open_ticket(text, "req-2", NOW) == NotGood(Why.ANOTHER_CALLER)
    assert seal().open_ticket(text, "req-1", NOW + GOOD_FOR) == NotGood(Why.EXPIRED)


def test_a_ticket_is_no_token_and_a_token_no_ticket() -> None:
    ticket, token = seal().ticket("alice", "req-1", NOW), seal().token("alice", NOW).text
    assert isinstance(seal().open("r1." + ticket[3:], "alice", NOW), NotGood)
    assert isinstance(seal().open_ticket("t1." + token[3:], "req-1", NOW), NotGood)
    assert seal().open_ticket(token, "req-1", NOW) == NotGood(Why.MALFORMED)


def test_what_is_kept_shows_nothing_and_opens_for_its_id_and_caller_alone() -> None:
    snapshot = b'{"prompt": "a secret"}' * 1_000
    sealed = seal().seal(snapshot, "id-1", "alice")
    assert b"secret" not in sealed
    assert len(sealed) < len(snapshot) / 10
    assert seal().unseal(sealed, "id-1", "alice") == snapshot
    assert seal(OTHER, NEW).unseal(sealed, "id-1", "alice") == snapshot
    for other in (
        seal().unseal(sealed, "id-2", "alice"),
        seal().unseal(sealed, "id-1", "bob"),
        seal(OTHER).unseal(sealed, "id-1", "alice"),
        seal().unseal(sealed[:-1], "id-1", "alice"),
        seal().unseal(b"", "id-1", "alice"),
    ):
        assert other == NotGood(Why.UNKNOWN_KEY)


@pytest.mark.parametrize("keys", [(), (b"short",), (NEW, b"")])
def test_keys_that_are_none_or_too_short_are_refused(keys: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Seal(keys, GOOD_FOR)


def test_every_reason_has_a_status_and_a_sentence() -> None:
    assert {NotGood(why).status for why in Why} == {400, 403, 404, 410}
    assert all(NotGood(why).sentence for why in Why)
