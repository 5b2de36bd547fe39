"""The page for people, rendered: one file without libraries, that asks only this exporter.

The names and sentences on it come from servers. They are escaped, and a policy lets the browser run
and apply nothing but the one script and the one style of the page. They are known by their hashes:
the script reads the page again, and a nonce would be another one there.
"""

from base64 import b64encode
from hashlib import sha256
from urllib.parse import urlencode

from flask import Flask, Response, make_response, render_template

from exporter.board import Board, caption, duration, iso, moment, reason, silence
from exporter.legend import LEGEND
from exporter.sparkline import sparkline
from exporter.view import URGENCIES, Query

POLICY = (
    "default-src 'none'; style-src {style}; script-src {script}; img-src data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
FILTERS = {
    "caption": caption,
    "duration": duration,
    "iso": iso,
    "moment": moment,
    "reason": reason,
    "silence": silence,
    "sparkline": sparkline,
    "urgency": URGENCIES.__getitem__,
}


def prepare(app: Flask) -> None:
    """Give the templates their words."""
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(FILTERS)


def page(board: Board, now: float) -> Response:
    """The page of a board at ``now``, in Unix seconds."""
    style, script = render_template("style.css.html"), render_template("script.js.html")
    text = render_template(
        "index.html",
        board=board,
        legend=LEGEND,
        style=style,
        script=script,
        as_of=moment(now, 0.0),
        search=_search(board.query),
    )
    answer = make_response(text)
    answer.headers["Content-Security-Policy"] = POLICY.format(
        style=_source(style), script=_source(script)
    )
    answer.headers["Referrer-Policy"] = "no-referrer"
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _source(text: str) -> str:
    """The text of an element, as a policy names it."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _search(query: Query) -> str:
    """The same query again, as the end of a URL."""
    pairs = [("state", str(state)) for state in sorted(query.states)]
    pairs += [("q", query.text)] if query.text else []
    return f"?{urlencode(pairs)}" if pairs else ""
