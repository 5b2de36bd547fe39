"""The server's side of TLS: a certificate and its key, taken anew when the files are renewed."""

import logging
import ssl
from pathlib import Path

from fleet.settings import Tls
from remediator.journal import line

Stamp = tuple[int, ...]

log = logging.getLogger("remediator")


class TlsError(Exception):
    """The files cannot be used; the text is one sentence that names setting and file."""


class Renewed:
    """An SSL context that has the latest certificate at each handshake.

    Files that cannot be used, as in the middle of a renewal, leave the one before in force.
    """

    def __init__(self, files: Tls) -> None:
        """Raises TlsError."""
        self._files = files
        self._stamp = _stamp(files)
        self._latest = loaded(files)
        self.context = loaded(files)
        self.context.sni_callback = self._greeted

    def _greeted(
        self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> None:
        """Called by OpenSSL at each client's first message, also where it names no server."""
        self._look()
        handshake.context = self._latest

    def _look(self) -> None:
        stamp = _stamp(self._files)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._latest = loaded(self._files)
        except TlsError as error:
            log.warning("%s", line(event="certificate_not_renewed", why=error))
        else:
            log.info("%s", line(event="certificate_renewed", file=self._files.certificate_file))


def loaded(files: Tls) -> ssl.SSLContext:
    """A context with the certificate and its key. Raises TlsError."""
    for setting, file in (
        ("certificate_file", files.certificate_file),
        ("key_file", files.key_file),
    ):
        try:
            file.read_bytes()
        except OSError as error:
            raise TlsError(f"tls.{setting}: {file} cannot be read: {error.strerror}") from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(files.certificate_file, files.key_file, password=lambda: "")
    except (ssl.SSLError, ValueError) as error:
        raise TlsError(_why(files, error)) from None
    return context


def _why(files: Tls, error: Exception) -> str:
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return f"tls.key_file: {files.key_file} is not the key of {files.certificate_file}"
    try:
        ssl.create_default_context(cafile=files.certificate_file)
    except (ssl.SSLError, ValueError):
        return f"tls.certificate_file: {files.certificate_file} is no certificate in PEM"
    return f"tls.key_file: {files.key_file} is no key in PEM without a passphrase"


def _stamp(files: Tls) -> Stamp:
    """What changes when a file is written anew or replaced; empty while one is missing."""
    try:
        found: list[Path] = [files.certificate_file, files.key_file]
        return tuple(n for s in (f.stat() for f in found) for n in (s.st_mtime_ns, s.st_ino))
    except OSError:
        return ()
