"""The web server on real sockets: what a client may do to it, and what it does to no other."""

import contextlib
import http.client
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from fleet.listen import Listen
from fleet.settings import Tls
from remediator.serve import Patience, Server
from remediator.tls import Renewed, TlsError

MOST = 100_000
HALF_OPEN = 300
THOUSAND = 1000
SOON = 60.0


def echo(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Says what it was asked."""
    body = environ["wsgi.input"].read()
    said = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} {environ['wsgi.url_scheme']} "
    echoed = f" {environ['HTTP_X_ECHO']}" if "HTTP_X_ECHO" in environ else ""
    text = f"{said}{len(body)}{echoed}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [text]


@contextlib.contextmanager
def serving(tls: Renewed | None = None, patience: Patience | None = None) -> Iterator[int]:
    """A port where ``echo`` is served."""
    sock = Listen("127.0.0.1", 0).bound()
    port = int(sock.getsockname()[1])
    server = Server(echo, sock, tls, most_bytes=MOST, patience=patience or Patience())
    server.start()
    try:
        yield port
    finally:
        server.stop()


@pytest.fixture
def port() -> Iterator[int]:
    with serving() as one:
        yield one


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def issue(authority: trustme.CA, folder: Path) -> Tls:
    """A certificate for the loopback and its key, written over those before."""
    issued = authority.issue_cert("127.0.0.1")
    files = Tls(folder / "cert.pem", folder / "key.pem")
    files.certificate_file.write_bytes(b"".join(b.bytes() for b in issued.cert_chain_pems))
    files.key_file.write_bytes(issued.private_key_pem.bytes())
    return files


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def connect(port: int, timeout: float = SOON) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=timeout)


def exchange(port: int, *sent: bytes) -> bytes:
    """All that comes back for what was sent, until the server closes."""
    with connect(port) as sock:
        for part in sent:
            sock.sendall(part)
        return b"".join(iter(lambda: sock.recv(65536), b""))


CLOSE = b"Host: x\r\nConnection: close\r\n"


def test_several_requests_on_one_connection(port: int) -> None:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=SOON)
    for length in (0, 5, 70_000):
        client.request("POST", "/a%20b", body=b"x" * length)
        assert client.getresponse().read() == f"POST /a b http {length}".encode()
    client.close()


def test_a_header_with_an_underscore_does_not_pass_for_the_one_with_a_hyphen(port: int) -> None:
    sent = b"GET / HTTP/1.1\r\nX_Echo: forged\r\n" + CLOSE + b"\r\n"
    assert exchange(port, sent).endswith(b"GET / http 0")
    assert exchange(port, sent.replace(b"X_Echo", b"X-Echo")).endswith(b"GET / http 0 forged")


def test_head_has_no_body(port: int) -> None:
    head, _, body = exchange(port, b"HEAD / HTTP/1.1\r\n" + CLOSE + b"\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"content-length: 13" in head
    assert body == b""


def test_a_body_in_chunks(port: int) -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + CLOSE + b"\r\n"
    told = exchange(port, head, b"3\r\nabc\r\n", b"4\r\ndefg\r\n0\r\n\r\n")
    assert told.endswith(b"POST / http 7")


def test_a_client_that_waits_to_be_asked_for_its_body(port: int) -> None:
    with connect(port) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n" + CLOSE)
        sock.sendall(b"\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 100")
        sock.sendall(b"abc")
        assert b"".join(iter(lambda: sock.recv(65536), b"")).endswith(b"POST / http 3")


@pytest.mark.parametrize("encoding", ["length", "chunks"])
def test_of_a_body_that_is_too_large_one_byte_too_much_is_kept(port: int, encoding: str) -> None:
    body = b"x" * (5 * MOST)
    sent = body if encoding == "length" else iter([body])
    told = requests.post(f"http://127.0.0.1:{port}/", data=sent, timeout=SOON)
    assert told.text == f"POST / http {MOST + 1}"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["a head without end", "no HTTP", "a length below nothing", "chunks that are none"],
)
def test_what_is_no_request_is_refused_and_the_next_one_served(port: int, sent: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        assert b" 200 " not in exchange(port, sent).split(b"\r\n")[0]
    assert requests.get(f"http://127.0.0.1:{port}/", timeout=SOON).ok


def test_a_thousand_requests_at_once_are_all_answered(port: int) -> None:
    asked = b"POST / HTTP/1.1\r\nContent-Length: 2\r\n" + CLOSE + b"\r\nhi"
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(connect(port, 60.0)) for _ in range(THOUSAND)]
        for client in clients:
            client.sendall(asked)
        for client in clients:
            told = b"".join(iter(lambda client=client: client.recv(65536), b""))  # type: ignore[misc]
            assert told.endswith(b"POST / http 2")


HALVES = {
    "nothing": b"",
    "half a head": b"POST / HTTP/1.1\r\nHost: x",
    "half a body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
}


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES.keys())
def test_clients_that_never_finish_hold_up_no_other(port: int, half: bytes) -> None:
    with contextlib.ExitStack() as opened:
        for _ in range(HALF_OPEN):
            opened.enter_context(connect(port)).sendall(half)
        assert requests.get(f"http://127.0.0.1:{port}/", timeout=SOON).text == "GET / http 0"


@pytest.mark.parametrize(
    "half", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half a hello"]
)
def test_handshakes_that_never_finish_hold_up_no_other(
    authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path, half: bytes
) -> None:
    with serving(Renewed(issue(authority, tmp_path))) as port, contextlib.ExitStack() as opened:
        for _ in range(HALF_OPEN):
            opened.enter_context(connect(port)).sendall(half)
        assert over_tls(port, trusting)[0] == b"GET / https 0"


def test_a_client_has_so_long_for_a_head_and_so_long_for_a_body() -> None:
    with serving(patience=Patience(idle=0.2, body=0.2)) as port:
        assert exchange(port, HALVES["half a head"]) == b""
        assert exchange(port, HALVES["half a body"]).startswith(b"HTTP/1.1 408")


def over_tls(port: int, trusting: ssl.SSLContext) -> tuple[bytes, object]:
    """The answer to a GET, and the number of the certificate."""
    client = http.client.HTTPSConnection("127.0.0.1", port, timeout=SOON, context=trusting)
    client.request("GET", "/")
    told = client.getresponse().read()
    certificate = client.sock.getpeercert()
    client.close()
    assert certificate
    return told, certificate["serialNumber"]


def test_a_renewed_certificate_holds_from_the_next_connection(
    authority: trustme.CA,
    trusting: ssl.SSLContext,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    files = issue(authority, tmp_path)
    with serving(Renewed(files)) as port:
        _, first = over_tls(port, trusting)
        # In the middle of a renewal the key is still the old one.
        old = files.key_file.read_bytes()
        issue(authority, tmp_path)
        new = files.key_file.read_bytes()
        files.key_file.write_bytes(old)
        assert over_tls(port, trusting)[1] == first
        assert "event=certificate_not_renewed" in caplog.text
        files.key_file.write_bytes(new)
        told, second = over_tls(port, trusting)
    assert told == b"GET / https 0"
    assert second != first
    assert "event=certificate_renewed" in caplog.text


def test_who_speaks_no_tls_is_cut_off_and_the_others_are_served(
    authority: trustme.CA, trusting: ssl.SSLContext, tmp_path: Path
) -> None:
    with serving(Renewed(issue(authority, tmp_path))) as port:
        with contextlib.suppress(ConnectionError):
            assert b"200" not in exchange(port, b"GET / HTTP/1.1\r\n" + CLOSE + b"\r\n")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with pytest.raises(ssl.SSLError), connect(port) as sock:  # trusts nobody
            old.wrap_socket(sock, server_hostname="127.0.0.1")
        assert over_tls(port, trusting)[0] == b"GET / https 0"


def test_once_stopped_nobody_listens() -> None:
    with serving() as port:
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=SOON)
        kept.request("GET", "/")
        assert kept.getresponse().read() == b"GET / http 0"
    with pytest.raises(ConnectionRefusedError):
        connect(port)
    with contextlib.suppress(ConnectionError):
        kept.sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    with contextlib.suppress(ConnectionError):
        assert kept.sock.recv(65536) == b""
    kept.close()


MISTAKES = {
    "no certificate": (None, "key", "tls.certificate_file: {cert} cannot be read: No such file or"),
    "no key": ("cert", None, "tls.key_file: {key} cannot be read: No such file or directory"),
    "a certificate that is none": ("text", "key", "tls.certificate_file: {cert} is no certificate"),
    "a key that is none": ("cert", "text", "tls.key_file: {key} is no key in PEM without a pass"),
    "the key of another": ("cert", "other", "tls.key_file: {key} is not the key of {cert}"),
}


@pytest.mark.parametrize(("cert", "key", "sentence"), MISTAKES.values(), ids=MISTAKES.keys())
def test_files_that_cannot_be_used_are_one_sentence(
    authority: trustme.CA, tmp_path: Path, cert: str | None, key: str | None, sentence: str
) -> None:
    good = issue(authority, tmp_path)
    contents = {
        "cert": good.certificate_file.read_bytes(),
        "key": good.key_file.read_bytes(),
        "other": authority.issue_cert("127.0.0.1").private_key_pem.bytes(),
        "text": b"no PEM at all\n",
    }
    files = Tls(tmp_path / "a.pem", tmp_path / "b.pem")
    for file, content in ((files.certificate_file, cert), (files.key_file, key)):
        if content is not None:
            file.write_bytes(contents[content])
    with pytest.raises(TlsError) as raised:
        Renewed(files)
    assert str(raised.value).startswith(
        sentence.format(cert=files.certificate_file, key=files.key_file)
    )
    assert "\n" not in str(raised.value)


def test_a_key_with_a_passphrase_is_refused_without_a_question(
    authority: trustme.CA, tmp_path: Path
) -> None:
    files = issue(authority, tmp_path)
    key = load_pem_private_key(files.key_file.read_bytes(), None)
    locked = BestAvailableEncryption(b"secret")
    files.key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
    with pytest.raises(TlsError, match="is no key in PEM without a passphrase"):
        Renewed(files)
