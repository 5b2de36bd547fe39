"""I/O: a PostgreSQL of our own for a while, in a folder that is gone afterwards."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from demo.child import free_ports
from demo.parts import postgresql

USER = "lifeguard"
PASSWORD = "correct horse"  # noqa: S105 -- of a database that lives for seconds
# It refuses to run as root; Debian's package makes this user.
SYSTEM_USER = "postgres"
READY_SECONDS = 60.0
STOP_SECONDS = 20.0
# It need not survive a power cut.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "32MB",
    "max_connections": "200",
    "autovacuum": "off",
}


class PostgreSQL:
    """A server on a loopback port, in a context manager. Raises PartMissingError."""

    def __init__(self) -> None:
        self._programs = postgresql()
        self._folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        self._as = SYSTEM_USER if os.geteuid() == 0 else None
        if self._as:
            os.chown(self._folder, pwd.getpwnam(self._as).pw_uid, -1)

    def __enter__(self) -> Self:
        """Make the cluster and start it."""
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run(
            *("initdb", "--pgdata", str(self._data), "--username", USER, "--no-sync"),
            *("--auth", "scram-sha-256", "--pwfile", str(password)),
            *("--encoding", "UTF8", "--locale", "C"),
        )
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it and forget everything."""
        self.stop()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = {
            **SETTINGS,
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self._folder),
        }
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data), *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._as,
                cwd=self._folder,
                start_new_session=True,
            )
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self._admin("SELECT 1")
            except OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Cut all connections and stop."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        self._process.wait(STOP_SECONDS)
        self._process = None

    def database(self) -> str:
        """The SQLAlchemy URL of a new, empty database, with its password."""
        name = f"lifeguard_{next(self._numbers)}"
        self._admin(f"CREATE DATABASE {name}")
        return self._url(name).render_as_string(hide_password=False)

    def cut(self) -> int:
        """Cut every other connection, as a fail-over does; returns how many there were."""
        others = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> "
        return self._admin(f"SELECT count(pg_terminate_backend(pid)) {others} pg_backend_pid()")

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _url(self, database: str) -> URL:
        return URL.create("postgresql+psycopg", USER, PASSWORD, "127.0.0.1", self.port, database)

    def _admin(self, statement: str) -> int:
        engine = create_engine(
            self._url("postgres"), poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as connection:
            result = connection.execute(text(statement))
            return int(result.scalar_one()) if result.returns_rows else 0

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            check=False,
            capture_output=True,
            text=True,
            user=self._as,
            cwd=self._folder,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program} ended with status {done.returncode}: {done.stderr}")
