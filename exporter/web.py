"""The exporter's pages: /metrics for Prometheus, / for people, /api/backends for programs."""

import threading
import time
from collections.abc import Callable, Sequence

from flask import Flask, Response, jsonify, request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from exporter import people
from exporter.board import Board
from exporter.memory import Memory
from exporter.view import Query, QueryError, query, rows


def create_app(
    memory: Memory,
    registry: CollectorRegistry,
    configured: int,
    pollers: Sequence[threading.Thread],
    *,
    monotonic: Callable[[], float] = time.monotonic,
) -> Flask:
    """The WSGI application over what the pollers know."""
    app = Flask(__name__)
    people.prepare(app)

    @app.get("/metrics")
    def metrics() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(registry), content_type=content_type)

    @app.get("/-/healthy")
    def healthy() -> tuple[str, int]:
        gone = [thread.name for thread in pollers if not thread.is_alive()]
        if gone:
            return f"not running any more: {', '.join(gone)}\n", 503
        return "healthy\n", 200

    @app.get("/-/ready")
    def ready() -> tuple[str, int]:
        polled = len(memory.snapshots())
        if polled < configured:
            return f"{polled} of {configured} backends polled once\n", 503
        return "ready\n", 200

    @app.get("/api/backends")
    def backends() -> Response:
        wanted = _query()
        found = rows(memory.watched(), monotonic())
        return jsonify([row for row in found if wanted.wants(row)])

    @app.get("/")
    def index() -> Response:
        board = Board(rows(memory.watched(), monotonic()), _query(), configured)
        return people.page(board, time.time())

    @app.errorhandler(QueryError)
    def not_a_query(error: QueryError) -> Response:
        return Response(f"{error}\n", 400, content_type="text/plain; charset=utf-8")

    @app.after_request
    def as_it_is_said(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    return app


def _query() -> Query:
    """What the parameters ask for. Raises QueryError."""
    return query(request.args.getlist("state"), request.args.get("q", ""))
