"""Where every request comes in: who may, what it is, and who answers it."""

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from prometheus_client import CollectorRegistry

from gateway import cors
from gateway.admin import Admin
from gateway.ask import ROUTES, Ask, AskError, Route, ask, named
from gateway.counts import Where
from gateway.errors import Refusal
from gateway.event_source import EventSourceReply
from gateway.following import STREAMS, Following
from gateway.heads import Head
from gateway.keys import Keys
from gateway.metrics_page import MetricsPage
from gateway.mishap import outlived
from gateway.office import Office
from gateway.passage import Errand, Passage
from gateway.question import Question, prefers_later
from gateway.relay import Generation, Wanted
from gateway.reply import Headers, Reply, Request
from gateway.spelling import meant
from gateway.stream import Stream
from gateway.taking_up import TakingUp
from gateway.wish import wish

log = logging.getLogger("gateway")

TEXT: Headers = (("content-type", "text/plain; charset=utf-8"),)
JSON: Headers = (("content-type", "application/json"),)
GENERATED = frozenset({Route.CHAT, Route.COMPLETIONS})
ADMIN = "/admin/"
UNKNOWN = Refusal(401, "the Authorization header bears no key known here")
LONGEST_ID = 128
RETRY_SECONDS = 2


class Desk:
    """Hands each request to whoever answers it. Belongs to the office's loop."""

    def __init__(
        self, office: Office, keys: Keys, admin: Admin, registry: CollectorRegistry
    ) -> None:
        self._office = office
        self._keys = keys
        self._admin = admin
        self._metrics_page = MetricsPage(registry)
        self._taking_up = TakingUp(office)
        self._following = Following(office, keys, self._taking_up)
        self._tasks: set[asyncio.Task[None]] = set()
        self._pages: dict[str, Callable[[Request, Reply], None]] = {
            "/-/healthy": self._healthy,
            "/-/ready": self._ready,
            "/metrics": self._metrics,
            "/v1/models": self._models,
        }

    def lets_in(self, request: Request) -> bool:
        """Tell whether a body is to be read, by its head: not of who would be told to go away."""
        if request.path.startswith(ADMIN):
            return self._admin.knows(request)
        return self._keys.caller(request.headers.get("authorization", "")) is not None

    def handle(self, request: Request, reply: Reply) -> None:
        """Answer a request, now or in a while; its body is empty where it was not let in."""
        with outlived(self._office.counts, Where.REQUEST, request.path):
            self._handle(request, reply)
            return
        if not reply.begun:
            self.refuse(reply, Refusal(500, "an error of this gateway"))
        elif not reply.ended:
            reply.cut()

    def _handle(self, request: Request, reply: Reply) -> None:
        if self._office.closing:
            reply.close_after()
        origin, origins = request.headers.get("origin"), self._office.settings.cors_origins
        if request.method == "OPTIONS":
            asked_method = request.headers.get("access-control-request-method")
            asked_headers = request.headers.get("access-control-request-headers")
            allowed = cors.preflight(origin, asked_method, asked_headers, origins)
            if allowed is not None:
                reply.send(204, allowed, b"")
                return
        reply.extra = cors.headers_for(origin, origins)
        page = self._pages.get(request.path)
        if page is not None and request.method in ("GET", "HEAD"):
            page(request, reply)
        elif request.path.startswith(ADMIN):
            self._admin.handle(request, reply)
        elif request.path.startswith(STREAMS):
            self._follow(request, reply.like(EventSourceReply))
        else:
            self._relay(request, reply)

    def _relay(self, request: Request, reply: Reply) -> None:
        caller = self._keys.caller(request.headers.get("authorization", ""))
        if caller is None:
            self.refuse(reply, UNKNOWN)
            return
        refusal = self._not_now(caller.id)
        if refusal is not None:
            self.refuse(reply, refusal)
            return
        try:
            self._start(self._work(request, caller.id, reply), reply)
        except AskError as error:
            self.refuse(reply, Refusal(400, error.why, error.param))

    def _follow(self, request: Request, reply: Reply) -> None:
        found = self._following.follower(request)
        if not isinstance(found, Refusal):
            refusal = self._not_now(found.caller)
            if refusal is None:
                self._start(self._following.run(found, reply), reply)
                return
            found = refusal
        self.refuse(reply, found)

    def _not_now(self, caller: str) -> Refusal | None:
        """Why nothing is done for a caller at the moment, if that is so."""
        if self._office.closing:
            return Refusal(503, "this gateway is closing", retry_after=RETRY_SECONDS)
        most = self._office.settings.per_caller
        if most is not None and self._in_flight(caller) >= most:
            why = f"{most} requests of this caller are in flight already"
            return Refusal(429, why, retry_after=RETRY_SECONDS)
        return None

    def _work(self, request: Request, caller: str, reply: Reply) -> Coroutine[Any, Any, None]:
        route = Route(request.path) if request.path in ROUTES else None
        if route is None and (spelt := meant(request.path)) is not None:
            raise AskError(f"the path must be {spelt}: as {request.path} it would not be billed")
        if route in GENERATED and request.method == "POST":
            wanted = wish(request.headers, request.body)
            if wanted is not None:
                return self._taking_up.run(wanted, request, caller, reply)
            forbid = request.headers.get("x-resume", "").strip().lower() == "never"
            asked = ask(route, request.body, forbid_resume=forbid)
            if asked.stream and prefers_later(request.headers):
                return self._following.ask(self._question(asked, request, caller), asked, reply)
            if asked.widened:
                return self._generation(asked, request, caller, reply).run()
        billed = route is not None and request.method == "POST"
        model = named(route if billed else None, request.body)
        errand = Errand(
            head=self._head(request, self._id(request)),
            body=request.body,
            caller=caller,
            model=model,
            billed=billed,
        )
        return Passage(self._office, errand, reply).run(self._key(request, errand.head.request_id))

    def _generation(self, asked: Ask, request: Request, caller: str, reply: Reply) -> Generation:
        request_id = self._id(request)
        stream = Stream(asked, request_id, int(self._office.wall()))
        key = self._key(request, request_id)
        wanted = Wanted(stream, self._head(request, request_id), caller, key)
        return Generation(self._office, wanted, reply)

    def _question(self, asked: Ask, request: Request, caller: str) -> Question:
        request_id = self._id(request)
        return Question(
            request_id=request_id,
            caller=caller,
            key=self._key(request, request_id),
            route=asked.route,
            body=request.body,
            forbidden=asked.forbidden,
            created=int(self._office.wall()),
        )

    @staticmethod
    def _head(request: Request, request_id: str) -> Head:
        target = request.path + (f"?{request.query}" if request.query else "")
        return Head(request.method, target, request.headers, request_id)

    @staticmethod
    def _key(request: Request, request_id: str) -> str:
        """What names a request for its caller: an id in use here names it all the same."""
        given = request.headers.get("x-request-id", "")
        return request.headers.get("idempotency-key") or (given if _is_id(given) else request_id)

    def _start(self, work: Coroutine[Any, Any, None], reply: Reply) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, reply))

    def _ended(self, task: asyncio.Task[None], reply: Reply) -> None:
        """What went wrong is told, and the client does not wait for an answer for ever."""
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        self._office.counts.failed(Where.REQUEST)
        log.error("event=request_failed", exc_info=error)
        if not reply.ended:
            reply.cut()

    def _in_flight(self, caller: str) -> int:
        return sum(request.caller == caller for request in self._office.in_flight.values())

    def _id(self, request: Request) -> str:
        """The client's own id of the request, if it can be one and is not in use."""
        given = request.headers.get("x-request-id", "")
        if _is_id(given) and given not in self._office.in_flight:
            return given
        return f"req-{uuid.uuid4().hex}"

    def refuse(self, reply: Reply, refusal: Refusal) -> None:
        """Answer with an error of ours."""
        self._office.refuse(reply, refusal)

    # pages of our own

    def _healthy(self, _: Request, reply: Reply) -> None:
        reply.send(200, TEXT, b"healthy\n")

    def _ready(self, _: Request, reply: Reply) -> None:
        if not self._office.ready:
            reply.send(503, TEXT, b"this gateway is closing\n")
        elif not any(s.is_up(self._office.now()) for s in self._office.standings):
            reply.send(503, TEXT, b"no backend is up\n")
        else:
            reply.send(200, TEXT, b"ready\n")

    def _metrics(self, request: Request, reply: Reply) -> None:
        content_type, page = self._metrics_page.page(request.headers.get("accept", ""))
        reply.send(200, (("content-type", content_type),), page)

    def _models(self, request: Request, reply: Reply) -> None:
        if self._keys.caller(request.headers.get("authorization", "")) is None:
            self.refuse(reply, UNKNOWN)
            return
        cards: dict[object, dict[str, object]] = {}
        for standing in self._office.standings:
            for card in standing.model_cards:
                cards.setdefault(card["id"], card)
        body = json.dumps({"object": "list", "data": list(cards.values())}).encode()
        reply.send(200, JSON, body)


def _is_id(given: str) -> bool:
    fits = 0 < len(given) <= LONGEST_ID and given.isascii() and given.isprintable()
    return fits and " " not in given
