"""The exporter's pages: /metrics for Prometheus, / for people, /api/backends for programs."""

import time
from collections.abc import Callable, Sequence

from flask import Flask, Response, jsonify, request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from exporter import people
from exporter.board import Board
from exporter.memory import Memory
from exporter.operation import add_operation
from exporter.standing import Standing
from exporter.view import Query, QueryError, query, rows


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
    people.prepare(app)
    add_operation(app, memory, standing, reload)

    @app.get("/metrics")
    def metrics() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(registry), content_type=content_type)

    @app.get("/api/backends")
    def backends() -> Response:
        wanted = _query()
        found = rows(memory.watched(), monotonic())
        return jsonify([row for row in found if wanted.wants(row)])

    @app.get("/")
    def index() -> Response:
        configured = len(standing().backends)
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
