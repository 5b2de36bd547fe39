"""The web side: Alertmanager's notifications in, and what became of them out.

A notification is answered with 200 once it is stored, and the work is done behind that. 400, 401
and 413 are final for Alertmanager, 503 lets it try again; nothing is ever refused for its rate.
"""

from flask import Flask, Response, jsonify, request
from prometheus_client.exposition import choose_encoder
from werkzeug.exceptions import RequestEntityTooLarge

from remediator.api import add_api
from remediator.credentials import CredentialsError, admits, challenges, refusal
from remediator.database import StorageError
from remediator.decision import RESOLVED
from remediator.desk import Desk
from remediator.incident import Incident
from remediator.journal import Received
from remediator.notification import Notification, NotificationError, notification
from remediator.people import add_pages

MOST_BYTES = 1024 * 1024


class RefusedError(Exception):
    """A notification is not taken: what it counts as, one sentence, and the HTTP status."""

    def __init__(self, what: Received, why: str, status: int) -> None:
        super().__init__(why)
        self.what = what
        self.why = why
        self.status = status


def create_app(desk: Desk) -> Flask:
    """The WSGI application over a desk."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MOST_BYTES
    _take_notifications(app, desk)
    _tell_programs(app, desk)
    add_api(app, desk)
    add_pages(app, desk)
    return app


def _take_notifications(app: Flask, desk: Desk) -> None:
    @app.post("/api/alerts")
    def alerts() -> tuple[Response, int]:
        try:
            _authorise(desk)
            told = _read()
            closed = _store(desk, told)
        except RefusedError as refused:
            desk.journal.received(refused.what, refused.why)
            answer = jsonify(error=refused.why)
            if refused.what is Received.UNAUTHORISED:
                answer.headers.extend(("WWW-Authenticate", c) for c in challenges(desk.settings))
            return answer, refused.status
        for incident in closed:
            desk.journal.decided(incident, RESOLVED)
        desk.journal.received(Received.ACCEPTED)
        if told.truncated:
            desk.journal.truncated(told.truncated)
        desk.worker.wake()
        return jsonify(stored=len(told.alerts)), 200


def _authorise(desk: Desk) -> None:
    try:
        admitted = admits(request.headers.get("Authorization", ""), desk.settings)
    except CredentialsError as error:
        raise RefusedError(Received.NOT_STORED, str(error), 503) from None
    if not admitted:
        raise RefusedError(Received.UNAUTHORISED, refusal(desk.settings), 401)


def _read() -> Notification:
    try:
        return notification(request.get_data(cache=False))
    except RequestEntityTooLarge:
        why = f"the notification is larger than {MOST_BYTES} bytes; set max_alerts in Alertmanager"
        raise RefusedError(Received.TOO_LARGE, why, 413) from None
    except NotificationError as error:
        raise RefusedError(Received.MALFORMED, str(error), 400) from None


def _store(desk: Desk, told: Notification) -> tuple[Incident, ...]:
    try:
        return desk.store.incidents.note(told.alerts, desk.clock())
    except StorageError as error:
        raise RefusedError(Received.NOT_STORED, str(error), 503) from None


def _tell_programs(app: Flask, desk: Desk) -> None:
    @app.get("/metrics")
    def metrics() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(desk.registry), content_type=content_type)

    @app.get("/-/healthy")
    def healthy() -> tuple[str, int]:
        trouble = desk.worker.trouble()
        return (f"{trouble}\n", 503) if trouble else ("healthy\n", 200)

    @app.get("/-/ready")
    def ready() -> tuple[str, int]:
        try:
            desk.store.attempts.under_way()
        except StorageError as error:
            return f"{error}\n", 503
        return healthy() if desk.worker.trouble() else ("ready\n", 200)
