"""Resume tokens, tickets and what is kept behind them: sealed, so that nobody reads or makes them.

A token names what is kept in the database, its caller and its end, and nothing of the request. It
is text that a header or a URL can hold. What is kept is sealed as well: whoever reads the database
reads no prompt.
"""

import hmac
import secrets
import struct
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from gateway.errors import Refusal

KEY_BYTES = 32
ID_BYTES = 16
NONCE_BYTES = 12
LONGEST = 1024  # characters of a token or ticket; one of ours is shorter
_TOKEN = struct.Struct(">16sd16s")  # id, when it expires, whose it is
_TICKET = struct.Struct(">d")  # when it expires; request and caller follow
# Each kind has a name of its own, so that one cannot be given for another.
_TOKEN_KIND, _TICKET_KIND, _KEPT_KIND = b"resume token 1", b"stream ticket 1", b"kept 1"
_TOKEN_PREFIX, _TICKET_PREFIX = "r1.", "t1."
_LEVEL = 1  # of zlib: token ids as text shrink to a third, in a tenth of the time of the best


class Why(StrEnum):
    """Why nothing can be taken up; the values are the ``code`` of the error that says so."""

    MALFORMED = "malformed"
    UNKNOWN_KEY = "unknown_key"
    ANOTHER_CALLER = "another_caller"
    EXPIRED = "expired"
    SPENT = "spent"
    NOT_KEPT = "not_kept"


STATUSES = {
    Why.MALFORMED: 400,
    Why.UNKNOWN_KEY: 400,
    Why.ANOTHER_CALLER: 403,
    Why.EXPIRED: 410,
    Why.SPENT: 410,
    Why.NOT_KEPT: 404,
}
SENTENCES = {
    Why.MALFORMED: "this is no resume token, ticket or event's id of a gateway",
    Why.UNKNOWN_KEY: "it was changed, or sealed with a key that this gateway does not have",
    Why.ANOTHER_CALLER: "it was given to another caller",
    Why.EXPIRED: "it has expired",
    Why.SPENT: "it was taken up before, which goes once",
    Why.NOT_KEPT: "nothing is kept for it",
}


@dataclass(frozen=True)
class NotGood:
    """Nothing can be taken up, with the reason."""

    why: Why

    @property
    def status(self) -> int:
        """The HTTP status that says so."""
        return STATUSES[self.why]

    @property
    def sentence(self) -> str:
        """The same for people."""
        return SENTENCES[self.why]

    @property
    def refusal(self) -> Refusal:
        """What whoever wants it is told."""
        return Refusal(self.status, self.sentence, code=self.why)


@dataclass(frozen=True)
class Token:
    """A new token: ``id`` is for the database, ``text`` for the client; in Unix seconds."""

    id: str
    text: str
    expires_at: float


@dataclass(frozen=True)
class Opened:
    """A token that was good when it was opened."""

    id: str
    expires_at: float


@dataclass(frozen=True)
class Ticket:
    """What a ticket was given out for."""

    caller: str
    request_id: str
    expires_at: float


class Seal:
    """Seals with the first of ``keys`` and opens with all; ``good_for`` is in seconds.

    Invariant: what is opened was sealed with one of the keys, as the same kind of thing, and is
    unchanged. Raises ValueError for keys that are none or not of 32 bytes.
    """

    def __init__(self, keys: Sequence[bytes], good_for: float) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"keys must be one or more of {KEY_BYTES} bytes")
        self._ciphers = [ChaCha20Poly1305(key) for key in keys]
        self._good_for = good_for

    def token(self, caller: str, now: float) -> Token:
        """Return a new token for a caller; nothing is kept for it yet."""
        name = secrets.token_bytes(ID_BYTES)
        expires_at = now + self._good_for
        sealed = self._close(_TOKEN.pack(name, expires_at, _digest(caller)), _TOKEN_KIND)
        return Token(name.hex(), _TOKEN_PREFIX + _text(sealed), expires_at)

    def open(self, text: str, caller: str, now: float) -> Opened | NotGood:
        """Return what a token names, if it is the caller's and has not expired."""
        plain = self._plain(text, _TOKEN_PREFIX, _TOKEN_KIND)
        if isinstance(plain, NotGood):
            return plain
        name, expires_at, whose = _TOKEN.unpack(plain)
        if not hmac.compare_digest(whose, _digest(caller)):
            return NotGood(Why.ANOTHER_CALLER)
        if now >= expires_at:
            return NotGood(Why.EXPIRED)
        return Opened(name.hex(), expires_at)

    def ticket(self, caller: str, request_id: str, now: float) -> str:
        """Return what lets a browser follow one stream of a caller without the caller's key."""
        names = f"{request_id}\n{caller}".encode()
        sealed = self._close(_TICKET.pack(now + self._good_for) + names, _TICKET_KIND)
        return _TICKET_PREFIX + _text(sealed)

    def open_ticket(self, text: str, request_id: str, now: float) -> Ticket | NotGood:
        """Return whose ticket it is, if it is one for this request and has not expired."""
        plain = self._plain(text, _TICKET_PREFIX, _TICKET_KIND)
        if isinstance(plain, NotGood):
            return plain
        (expires_at,) = _TICKET.unpack_from(plain)
        named, _, caller = plain[_TICKET.size :].decode().partition("\n")
        if named != request_id:
            return NotGood(Why.ANOTHER_CALLER)
        if now >= expires_at:
            return NotGood(Why.EXPIRED)
        return Ticket(caller, request_id, expires_at)

    def seal(self, snapshot: bytes, token_id: str, caller: str) -> bytes:
        """Return a snapshot as it may be kept under the token's id, for this caller."""
        return self._close(zlib.compress(snapshot, _LEVEL), _kept(token_id, caller))

    def unseal(self, sealed: bytes, token_id: str, caller: str) -> bytes | NotGood:
        """Return the snapshot that was sealed for just this id and caller."""
        plain = self._open(sealed, _kept(token_id, caller))
        return NotGood(Why.UNKNOWN_KEY) if plain is None else zlib.decompress(plain)

    def _plain(self, text: str, prefix: str, kind: bytes) -> bytes | NotGood:
        if not text.startswith(prefix) or len(text) > LONGEST:
            return NotGood(Why.MALFORMED)
        sealed = _bytes(text.removeprefix(prefix))
        if sealed is None:
            return NotGood(Why.MALFORMED)
        plain = self._open(sealed, kind)
        return NotGood(Why.UNKNOWN_KEY) if plain is None else plain

    def _close(self, plain: bytes, bound_to: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, plain, bound_to)

    def _open(self, sealed: bytes, bound_to: bytes) -> bytes | None:
        nonce, closed = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
        if len(nonce) < NONCE_BYTES:
            return None
        for cipher in self._ciphers:
            try:
                return cipher.decrypt(nonce, closed, bound_to)
            except InvalidTag:
                continue
        return None


def _digest(caller: str) -> bytes:
    return sha256(caller.encode()).digest()[:16]


def _kept(token_id: str, caller: str) -> bytes:
    return b"\n".join((_KEPT_KIND, token_id.encode(), caller.encode()))


def _text(sealed: bytes) -> str:
    return urlsafe_b64encode(sealed).decode().rstrip("=")


def _bytes(text: str) -> bytes | None:
    """The bytes of base64url, None where it is not written as we write it."""
    try:
        sealed = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return sealed if _text(sealed) == text else None
