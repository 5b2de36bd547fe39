"""The admin API: what is in flight, which backends are drained. For bearers of its token only."""

import hmac
import json
import logging
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from fleet import secret_file
from fleet.secret_file import SecretError
from gateway.errors import Refusal
from gateway.office import InFlight, Office
from gateway.reply import Headers, Reply, Request
from gateway.standing import Standing

JSON: Headers = (("content-type", "application/json"),)
BACKENDS = "/admin/backends"
IN_FLIGHT = "/admin/inflight"
# A drain that nobody ends ends by itself, well after any restart.
LONGEST_DRAIN_SECONDS = 3600.0

log = logging.getLogger("gateway")


class Admin:
    """Answers requests below /admin/. The token is read anew for each."""

    def __init__(self, office: Office, token_file: Path) -> None:
        self._office = office
        self._token_file = token_file

    def handle(self, request: Request, reply: Reply) -> None:
        """Answer one."""
        refusal = self._refusal(request)
        if refusal is None:
            refusal = self._answer(request, reply)
        if refusal is not None:
            reply.send(refusal.status, refusal.headers, refusal.body)

    def knows(self, request: Request) -> bool:
        """Tell whether a request's head bears the token."""
        return self._refusal(request) is None

    def _refusal(self, request: Request) -> Refusal | None:
        try:
            expected = secret_file.token(self._token_file)
        except SecretError as error:
            log.warning("event=admin_token_not_read why=%r", str(error))
            return Refusal(503, "the token of the admin API cannot be read")
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("latin-1"), expected.encode("ascii"))
        if not same or scheme.lower() != "bearer":
            return Refusal(401, "the Authorization header does not bear the token of the admin API")
        return None

    def _answer(self, request: Request, reply: Reply) -> Refusal | None:
        if request.path == IN_FLIGHT and request.method == "GET":
            rows = [self._row(request) for request in self._office.in_flight.values()]
            return self._send(reply, 200, rows)
        if request.path == BACKENDS and request.method == "GET":
            return self._send(reply, 200, [self._said(s) for s in self._office.standings])
        if not request.path.startswith(f"{BACKENDS}/"):
            return Refusal(404, f"{request.path} is not known here")
        quoted, _, order = request.path.removeprefix(f"{BACKENDS}/").partition("/")
        name = unquote(quoted)
        standing = self._office.standing(name)
        if standing is None:
            known = ", ".join(s.backend.name for s in self._office.standings)
            return Refusal(404, f"{name!r} is no backend of this gateway, which has: {known}")
        orders: dict[tuple[str, str], Callable[[Standing], int]] = {
            ("GET", ""): lambda _: 200,
            ("POST", "drain"): self._drain,
            ("POST", "undrain"): self._undrain,
        }
        act = orders.get((request.method, order))
        if act is None:
            return Refusal(405, f"{request.method} {request.path} is not known here")
        return self._send(reply, act(standing), self._said(standing))

    def _drain(self, standing: Standing) -> int:
        """Send nothing more there; what is there goes on elsewhere as soon as it can."""
        standing.draining = True
        standing.drain_until = self._office.now() + LONGEST_DRAIN_SECONDS
        for request in self._office.at(standing.backend.name):
            self._office.sweep(request)
        return 202

    def _undrain(self, standing: Standing) -> int:
        standing.draining = False
        standing.forgive()
        return 200

    def _said(self, standing: Standing) -> dict[str, object]:
        return {
            "backend": standing.backend.name,
            "state": standing.traffic(self._office.now()),
            "in_flight": standing.in_flight,
            "verdict": standing.verdict,
            "models": sorted(standing.models or ()),
        }

    def _row(self, request: InFlight) -> dict[str, object]:
        return {
            "id": request.id,
            "caller": request.caller,
            "model": request.model,
            "backend": request.backend,
            "age_seconds": round(self._office.now() - request.began, 3),
            "tokens": request.tokens,
            "legs": request.legs,
        }

    @staticmethod
    def _send(reply: Reply, status: int, value: object) -> None:
        reply.send(status, JSON, json.dumps(value).encode())
