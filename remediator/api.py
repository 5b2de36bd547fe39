"""The API for people and batch jobs, in the words of docs/remediator-api.md.

Whoever reaches the port may read. What changes anything needs the token of ``api_token_file`` in
the Authorization header and a JSON body: a browser sends neither for a page of somebody else's.
What programs printed (a command's output, evidence) needs the token too: it may hold anything.
"""

from collections.abc import Sequence
from datetime import timedelta
from http import HTTPStatus

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import RequestEntityTooLarge

from remediator import api_token, wish
from remediator.backoff import patience
from remediator.database import StorageError
from remediator.decision import Action
from remediator.desk import Desk
from remediator.exhibit import NoExhibitError
from remediator.incident import Attempt, Decided, Incident
from remediator.journal import record_of_people
from remediator.moment import clock
from remediator.overview import FleetRow, fleet_row
from remediator.reasoning import left
from remediator.record import EVERY_BACKEND
from remediator.rows import (
    QuestionRow,
    attempt_row,
    decision_row,
    hold_row,
    incident_row,
    question_row,
)
from remediator.shadow import Patience, report
from remediator.survey import Survey
from remediator.wish import WishError

MOST_BYTES = 16 * 1024
MOST_ROWS = 100
SHADOW_SINCE = "30d"
# No id is larger: the databases count in 32 bits.
NUMBER = "<int(max=2147483647):number>"


class NotFoundError(Exception):
    """There is none of this id; one sentence."""


def add_api(app: Flask, desk: Desk) -> None:
    """Add all of it to an application."""
    _read(app, desk)
    _read_one(app, desk)
    _hold(app, desk)
    _act(app, desk)
    _refuse(app)


def status(desk: Desk) -> FleetRow:
    """The fleet as it stands now. Raises StorageError."""
    now = desk.clock()
    known = Survey(desk.fleet, desk.settings, desk.store).all(now)
    holds = desk.store.holds.in_force(now)
    return fleet_row(known, holds, desk.settings, desk.worker.trouble(), now)


def _read(app: Flask, desk: Desk) -> None:
    @app.get("/api/status")
    def api_status() -> Response:
        return jsonify(status(desk))

    @app.get("/api/holds")
    def holds() -> Response:
        return jsonify([hold_row(hold) for hold in desk.store.holds.in_force(desk.clock())])

    @app.get("/api/incidents")
    def incidents() -> Response:
        return jsonify([incident_row(i) for i in desk.store.incidents.newest(MOST_ROWS)])

    @app.get("/api/attempts")
    def attempts() -> Response:
        backend = request.args.get("backend")
        if backend is not None:
            wish.known(backend, _names(desk))
        found = desk.store.attempts.newest(_limit(), backend)
        return jsonify([attempt_row(attempt) for attempt in found])

    @app.get("/api/decisions")
    def decisions() -> Response:
        return jsonify([decision_row(d) for d in desk.store.incidents.newest_decisions(MOST_ROWS)])

    @app.get("/api/backends/<name>/why")
    def why(name: str) -> Response:
        wish.known(name, _names(desk))
        return jsonify(Survey(desk.fleet, desk.settings, desk.store).why(name))

    @app.get("/api/shadow")
    def shadow() -> Response:
        since = desk.clock() - _since()
        confirm_for = desk.settings.confirm_for
        of = {b.name: Patience(b.wait, confirm_for) for b in desk.fleet.backends}
        told = report(desk.settings.mode, desk.store.attempts.in_shadow(since), of)
        return jsonify({"since": clock(since), **told})


def _read_one(app: Flask, desk: Desk) -> None:
    @app.get(f"/api/incidents/{NUMBER}")
    def incident(number: int) -> Response:
        found = desk.store.incidents.find(number)
        if found is None:
            raise NotFoundError(f"there is no incident {number}")
        attempts = desk.store.attempts.newest(MOST_ROWS, found.backend)
        return jsonify(
            {
                **incident_row(found),
                "questions": [question_row(answer) for answer in found.answers],
                "not_asked": left(found, found.answers),
                "attempts": [attempt_row(a) for a in attempts if a.incident_id == number],
                "journal": [decision_row(line) for line in _journal(desk, found)],
            }
        )

    @app.get(f"/api/attempts/{NUMBER}")
    def attempt(number: int) -> Response:
        found = _attempt(desk, number)
        incident = desk.store.incidents.incident(found.incident_id)
        may_read = _may_read(desk)
        longest = desk.store.records.record(found.backend).longest_load
        backend = desk.fleet.backend(found.backend)
        patient = None if backend is None else patience(backend.load_time, longest)
        return jsonify(
            {
                **attempt_row(found),
                "as_of": clock(desk.clock()),
                "load_seconds": longest,
                "patience_seconds": patient,
                "asked_by": incident.asked_by,
                "asked_why": incident.asked_why,
                "alertname": incident.alertname,
                "files": _files(desk, found),
                "output": found.output if may_read else None,
                "questions": _asked_before(desk, incident, found),
                "journal": [decision_row(line) for line in _journal(desk, incident)],
            }
        )

    @app.get(f"/api/attempts/{NUMBER}/evidence/<file>")
    def evidence(number: int, file: str) -> Response:
        _allow(desk)
        found = _attempt(desk, number)
        if found.evidence is None:
            raise NoExhibitError(f"attempt {number} has no evidence")
        text = desk.saved(found.evidence).text(file)
        answer = Response(text, content_type="text/plain; charset=utf-8")
        answer.headers["Content-Disposition"] = "attachment"
        return answer


def _hold(app: Flask, desk: Desk) -> None:
    @app.post("/api/holds")
    def hold() -> tuple[Response, HTTPStatus]:
        body = _body(desk)
        now = desk.clock()
        asked = wish.hold_wish(body, _names(desk), now, desk.settings.longest_hold)
        made = desk.store.holds.add(asked.backend, asked.until, asked.by, asked.why, now)
        record_of_people(
            "held", made.backend, by=made.held_by, hold=made.id, until=made.until, why=made.why
        )
        return jsonify(hold_row(made)), HTTPStatus.CREATED

    @app.delete(f"/api/holds/{NUMBER}")
    def release_one(number: int) -> Response:
        asked = wish.wish(_body(desk), needs_why=False)
        released = desk.store.holds.release_one(number, asked.by, desk.clock())
        if not released:
            raise NotFoundError(f"no hold {number} is in force")
        record_of_people("released", released[0].backend, by=asked.by, hold=number, why=asked.why)
        desk.worker.wake()
        return jsonify(released=[hold_row(one) for one in released])

    @app.post("/api/backends/<name>/release")
    def release(name: str) -> Response:
        body = _body(desk)
        if name != EVERY_BACKEND:
            wish.known(name, _names(desk))
        asked = wish.wish(body, needs_why=False)
        released = desk.store.holds.release(name, asked.by, desk.clock())
        record_of_people("released", name, by=asked.by, holds=len(released), why=asked.why)
        desk.worker.wake()
        return jsonify(released=[hold_row(one) for one in released])


def _act(app: Flask, desk: Desk) -> None:
    @app.post("/api/backends/<name>/reset")
    def reset(name: str) -> Response:
        body = _body(desk)
        wish.known(name, _names(desk))
        asked = wish.wish(body, needs_why=False)
        before = desk.store.records.reset(name, asked.by, desk.clock())
        record_of_people("reset", name, by=asked.by, why=asked.why)
        desk.worker.wake()
        given_up_at = before.given_up_at
        return jsonify(
            backend=name,
            given_up_at=None if given_up_at is None else clock(given_up_at),
            given_up_why=before.given_up_why,
        )

    @app.post("/api/backends/<name>/restart")
    def restart(name: str) -> tuple[Response, HTTPStatus]:
        body = _body(desk)
        wish.known(name, _names(desk))
        asked = wish.wish(body, needs_why=True)
        incident = desk.store.incidents.ask(name, asked.by, asked.why, desk.clock())
        record_of_people("asked", name, by=asked.by, incident=incident.id, why=asked.why)
        desk.worker.wake()
        return jsonify(incident_row(incident)), HTTPStatus.ACCEPTED


def _refuse(app: Flask) -> None:
    @app.errorhandler(StorageError)
    def not_read(error: StorageError) -> tuple[Response, HTTPStatus]:
        return jsonify(error=str(error)), HTTPStatus.SERVICE_UNAVAILABLE

    @app.errorhandler(api_token.NotAllowedError)
    def not_allowed(error: api_token.NotAllowedError) -> Response:
        answer = jsonify(error=str(error))
        answer.status_code = error.status
        if error.status == HTTPStatus.UNAUTHORIZED:
            answer.headers["WWW-Authenticate"] = 'Bearer realm="vllm-remediator"'
        return answer

    @app.errorhandler(wish.UnknownBackendError)
    @app.errorhandler(NotFoundError)
    @app.errorhandler(NoExhibitError)
    def not_found(error: Exception) -> tuple[Response, HTTPStatus]:
        return jsonify(error=str(error)), HTTPStatus.NOT_FOUND

    @app.errorhandler(WishError)
    def not_a_wish(error: WishError) -> tuple[Response, HTTPStatus]:
        return jsonify(error=str(error)), HTTPStatus.BAD_REQUEST

    @app.after_request
    def as_it_is_said(response: Response) -> Response:
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


def _body(desk: Desk) -> object:
    """The JSON of a request that may change something. Raises NotAllowedError and WishError."""
    _allow(desk)
    if request.mimetype != "application/json":
        raise WishError("Content-Type: has to be application/json")
    request.max_content_length = MOST_BYTES
    try:
        tree = request.get_json(silent=True)
    except RequestEntityTooLarge:
        raise WishError(f"the body: is larger than {MOST_BYTES} bytes") from None
    except RecursionError:
        tree = None
    if tree is None:
        raise WishError("the body: is not JSON")
    return tree


def _allow(desk: Desk) -> None:
    api_token.allow(request.headers.get("Authorization", ""), desk.settings.api_token_file)


def _may_read(desk: Desk) -> bool:
    """Whether what programs printed may be shown. Raises NotAllowedError for a wrong token."""
    if "Authorization" not in request.headers:
        return False
    _allow(desk)
    return True


def _names(desk: Desk) -> tuple[str, ...]:
    return tuple(backend.name for backend in desk.fleet.backends)


def _limit() -> int:
    text = request.args.get("limit", str(MOST_ROWS))
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) <= MOST_ROWS:
        raise WishError(f"limit: is not a number from 1 to {MOST_ROWS}")
    return int(text)


def _since() -> timedelta:
    text = request.args.get("since", SHADOW_SINCE)
    return wish.for_so_long(text, "since")


def _attempt(desk: Desk, number: int) -> Attempt:
    found = desk.store.attempts.find(number)
    if found is None:
        raise NotFoundError(f"there is no attempt {number}")
    return found


def _journal(desk: Desk, incident: Incident) -> Sequence[Decided]:
    """What was decided about an incident, the oldest first."""
    lines = desk.store.incidents.newest_decisions(MOST_ROWS, incident.backend)
    return [line for line in reversed(lines) if line.incident_id == incident.id]


def _asked_before(desk: Desk, incident: Incident, attempt: Attempt) -> list[QuestionRow]:
    """The questions of the decision that led to an attempt."""
    lines = [
        line
        for line in _journal(desk, incident)
        if line.action is Action.RESTART and line.at <= attempt.last_at
    ]
    return [question_row(answer) for answer in lines[-1].answers] if lines else []


def _files(desk: Desk, attempt: Attempt) -> list[dict[str, str | int]] | None:
    """The evidence's files; None where none was saved, or it is gone."""
    if attempt.evidence is None:
        return None
    try:
        return [{"name": f.name, "size": f.size} for f in desk.saved(attempt.evidence).files()]
    except NoExhibitError:
        return None
