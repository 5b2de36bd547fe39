"""The remediator's web side over a stage, on a real socket if that is wanted."""

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from werkzeug.serving import WSGIRequestHandler, make_server

from fleet.backend import Backend
from fleet.family import registry
from remediator.collector import RemediatorCollector
from remediator.desk import Desk
from remediator.exhibit import NoExhibitError
from remediator.webhook import create_app
from tests.remediator import making
from tests.remediator.stage import Stage

TOKEN = "a-token-of-the-api"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass(frozen=True)
class FakeFile:
    name: str
    size: int


@dataclass
class FakeSaved:
    """Evidence of every attempt alike."""

    texts: dict[str, str] = field(
        default_factory=lambda: {"health.txt": "200\n", "command-1-py-spy.txt": "stack <b>\x1b[31m"}
    )

    def files(self) -> list[FakeFile]:
        return [FakeFile(name, len(text)) for name, text in self.texts.items()]

    def text(self, name: str) -> str:
        if name not in self.texts:
            raise NoExhibitError(f"{name!r} is no file of evidence")
        return self.texts[name]


@dataclass
class Site:
    """A stage, its application, and the file of the API's token."""

    stage: Stage
    app: Flask
    token_file: Path
    desk: Desk

    @property
    def client(self) -> FlaskClient:
        return self.app.test_client()

    def get(self, path: str, **headers: str) -> Any:  # noqa: ANN401 -- JSON
        answer = self.client.get(path, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json

    def send(
        self, path: str, body: object, method: str = "POST", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send JSON with the token, or with other headers."""
        given = BEARER if headers is None else headers
        answer = self.client.open(path, method=method, json=body, headers=given)
        return answer.status_code, answer.json


# gpu-a and gpu-b can be restarted, and a router cannot.
TWO = (
    making.backend("gpu-a", gateways=("http://127.0.0.1:2",)),
    making.backend("gpu-b"),
    making.backend("router", restart=None),
)


@contextmanager
def site(
    folder: Path,
    *backends: Backend,
    **changed: Any,  # noqa: ANN401 -- fields are changed by name
) -> Iterator[Site]:
    """A remediator of these backends (or TWO), at rest."""
    token_file = folder / "api-token"
    token_file.write_text(f"{TOKEN}\n")
    settings = making.settings(*(backends or TWO), **{"api_token_file": token_file, **changed})
    with Stage(folder, settings) as stage:
        limits = stage.remedy.limits
        names = tuple(backend.name for backend in settings.backends)
        own = registry(
            RemediatorCollector(limits.mode, names, stage.store, stage.journal, stage.clock)
        )
        saved = FakeSaved()
        desk = Desk(
            settings=limits,
            store=stage.store,
            journal=stage.journal,
            worker=stage.worker,
            registry=own,
            clock=stage.clock,
            fleet=settings,
            saved=lambda _: saved,
        )
        yield Site(stage, create_app(desk), token_file, desk)


class Quiet(WSGIRequestHandler):
    """Says nothing of each request."""

    def log(self, *_: object) -> None:
        pass


@contextmanager
def served(app: Flask, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The application on a free port; gives its URL."""
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet, ssl_context=tls)
    thread = threading.Thread(target=server.serve_forever, name="web")
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(60.0)
        server.server_close()


@contextmanager
def turning(stage: Stage, seconds_a_turn: float = 1.0) -> Iterator[None]:
    """The worker at work in a thread, on a clock that runs fast."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            stage.clock.advance(seconds_a_turn)
            stage.turn()
            time.sleep(0.02)

    thread = threading.Thread(target=run, name="turning")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60.0)
        assert not thread.is_alive()
