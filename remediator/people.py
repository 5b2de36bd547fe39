"""The pages for people, rendered: without scripts, without anything from elsewhere.

The names and sentences on them come from alerts, servers and people. They are escaped, and a policy
lets the browser run nothing at all and apply nothing but the one style, known by its hash. Nothing
can be done on a page: it shows the command to type instead, which needs the token.
"""

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

from flask import Flask, Response, make_response, render_template

from fleet.settings import Mode
from remediator import wish
from remediator.api import MOST_ROWS, status
from remediator.desk import Desk
from remediator.incident import AttemptState
from remediator.overview import URGENCIES, BackendRow, FleetRow, Urgency, backend_row
from remediator.reasoning import Why
from remediator.rows import attempt_row, decision_row
from remediator.shadow import in_words
from remediator.survey import Survey

POLICY = (
    "default-src 'none'; style-src {style}; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADINGS: Mapping[Urgency, str] = {
    Urgency.PERSON: "Wants a person",
    Urgency.WATCH: "Worth watching",
    Urgency.NONE: "All right",
}
MODES: Mapping[Mode, str] = {
    Mode.ACT: "restarts what is proven stuck",
    Mode.SHADOW: "decides and records, restarts nothing",
}
# How a state of an attempt looks: as badly as a backend that wants a person, or less.
ATTEMPTS: Mapping[AttemptState, Urgency] = {
    AttemptState.PLANNED: Urgency.WATCH,
    AttemptState.ACTING: Urgency.WATCH,
    AttemptState.STARTING: Urgency.WATCH,
    AttemptState.RECOVERED: Urgency.NONE,
    AttemptState.STILL_STUCK: Urgency.PERSON,
    AttemptState.NOT_BACK: Urgency.PERSON,
    AttemptState.FAILED: Urgency.PERSON,
    AttemptState.INTERRUPTED: Urgency.PERSON,
}
MOST_SHOWN = 30


def add_pages(app: Flask, desk: Desk) -> None:
    """Add them to an application."""
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters["duration"] = lambda seconds: in_words(float(seconds))
    app.jinja_env.filters["moment"] = _moment
    app.jinja_env.filters["attempt_urgency"] = lambda state: ATTEMPTS[AttemptState(state)]

    @app.get("/")
    def index() -> Response:
        fleet = status(desk)
        attempts = desk.store.attempts.newest(MOST_SHOWN)
        decisions = desk.store.incidents.newest_decisions(MOST_SHOWN)
        return _page(
            "index.html",
            fleet=fleet,
            groups=groups(fleet),
            summary=summary(fleet),
            mode_in_words=MODES[fleet["mode"]],
            attempts=[attempt_row(attempt) for attempt in attempts],
            decisions=[decision_row(decision) for decision in decisions],
            example=fleet["backends"][0]["backend"] if fleet["backends"] else "BACKEND",
        )

    @app.get("/backends/<name>")
    def backend(name: str) -> Response:
        wish.known(name, tuple(backend.name for backend in desk.fleet.backends))
        found = desk.fleet.backend(name)
        assert found is not None  # noqa: S101 -- its name is known
        now = desk.clock()
        survey = Survey(desk.fleet, desk.settings, desk.store)
        why: Why = survey.why(name)
        return _page(
            "one.html",
            row=backend_row(survey.one(found, now), now),
            why=why,
            as_of=now,
            mode=desk.settings.mode,
            attempts=[attempt_row(a) for a in desk.store.attempts.newest(MOST_ROWS, name)],
            decisions=[
                decision_row(d) for d in desk.store.incidents.newest_decisions(MOST_ROWS, name)
            ],
            starts=desk.store.records.newest_starts(MOST_SHOWN, name),
        )


def groups(fleet: FleetRow) -> list[tuple[Urgency, str, list[BackendRow]]]:
    """The backends by urgency, each group with its heading; groups of none are left out."""
    by_urgency = (
        (urgency, heading, [row for row in fleet["backends"] if row["urgency"] is urgency])
        for urgency, heading in HEADINGS.items()
    )
    return [group for group in by_urgency if group[2]]


def summary(fleet: FleetRow) -> str:
    """What most wants a person, in a few words: the title of the page."""
    many = sum(URGENCIES[row["situation"]] is Urgency.PERSON for row in fleet["backends"])
    total = len(fleet["backends"])
    if fleet["trouble"]:
        return f"the remediator itself wants a person: {fleet['trouble']}"
    if many:
        return f"{many} of {total} {'wants' if many == 1 else 'want'} a person"
    return f"{total} backends, none wants a person"


def _page(template: str, **values: object) -> Response:
    style = render_template("style.css.html")
    answer = make_response(render_template(template, style=style, **values))
    digest = b64encode(sha256(style.encode()).digest()).decode()
    answer.headers["Content-Security-Policy"] = POLICY.format(style=f"'sha256-{digest}'")
    answer.headers["Referrer-Policy"] = "no-referrer"
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _moment(clock: str | None) -> str:
    """``2026-03-01T12:00:00Z`` as people read it."""
    return "" if clock is None else clock.replace("T", " ").replace("Z", " UTC")
