"""The exporter's pages: /metrics for Prometheus, / for people, /api/backends for programs."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from flask import Flask, Response, jsonify, render_template, request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from exporter.memory import Memory, Snapshot
from exporter.operation import add_operation
from exporter.standing import Standing


def create_app(
    memory: Memory,
    registry: CollectorRegistry,
    standing: Callable[[], Standing],
    reload: Callable[[], Sequence[str]],
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> Flask:
    """The WSGI application over what the pollers know.

    ``reload`` reads fleet.yml again and gives what is wrong with it; it may raise ReloadBusyError.
    """
    app = Flask(__name__)
    add_operation(app, memory, standing, reload)

    @app.get("/metrics")
    def metrics() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(registry), content_type=content_type)

    @app.get("/api/backends")
    def backends() -> Response:
        now = monotonic()
        return jsonify([_as_json(snapshot, now) for snapshot in memory.snapshots()])

    @app.get("/")
    def index() -> str:
        now = monotonic()
        rows = [_as_json(snapshot, now) for snapshot in memory.snapshots()]
        return render_template("index.html", backends=rows, configured=len(standing().backends))

    return app


def _as_json(snapshot: Snapshot, now: float) -> dict[str, Any]:
    """One backend as /api/backends shows it; ages in seconds, ``since`` in Unix seconds."""
    history = snapshot.history
    engines = [
        {
            "engine": name,
            "state": verdict.state,
            "why": verdict.why,
            "quiet_seconds": round(history.engines[name].quiet.seconds, 1),
            "requests_running": history.engines[name].reading.running,
            "requests_waiting": history.engines[name].reading.waiting,
        }
        for name, verdict in snapshot.judgement.engines.items()
    ]
    return {
        "backend": snapshot.backend.name,
        "url": snapshot.backend.url,
        "state": snapshot.judgement.backend.state,
        "why": snapshot.judgement.backend.why,
        "since": round(snapshot.since_wall, 3),
        "state_age_seconds": round(now - snapshot.since, 1),
        "read_age_seconds": round(now - snapshot.polled_at, 1),
        "wait_seconds": snapshot.backend.wait,
        "restarts": history.restarts,
        "engines": engines,
    }
