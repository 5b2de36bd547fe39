"""Serves a browser's EventSource, which can send neither a body nor a key: see docs/resume.md.

It asks first and follows the answer after that. Nothing is generated, nor on any bill, before a
request to follow is admitted, and of several at the same time the bill admits one.
"""

import asyncio
import json
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote

from gateway.ask import Ask, AskError
from gateway.bill import Admission, BillError, End, Opened
from gateway.choose import NoBackend, choose
from gateway.errors import Refusal
from gateway.heads import Head
from gateway.keys import Keys
from gateway.letting_in import not_let_in
from gateway.office import Office
from gateway.question import RESPOND_ASYNC, Question
from gateway.relay import Generation, Wanted
from gateway.reply import Reply, Request
from gateway.seal import NotGood, Why
from gateway.stream import Stream
from gateway.taking_up import BUSY, TakingUp
from gateway.wish import Last, Wish, followed

STREAMS = "/v1/streams/"
RETRY_SECONDS = 10
UNKNOWN = Refusal(401, "neither a ticket nor the Authorization header is known here")
# All that a backend is to know of a request whose client sends nothing but its URL.
HEADERS = {"content-type": "application/json"}


@dataclass(frozen=True)
class Follower:
    """Who follows which stream, and the last event of it that came; number 0 for none."""

    caller: str
    last: Last


class Following:
    """Belongs to the office's loop."""

    def __init__(self, office: Office, keys: Keys, taking_up: TakingUp) -> None:
        self._office = office
        self._keys = keys
        self._taking_up = taking_up

    async def ask(self, question: Question, asked: Ask, reply: Reply) -> None:
        """Keep what is asked, and answer with where to follow it."""
        try:
            refusal = await self._refusal(question, asked)
            if refusal is None:
                now = self._office.wall()
                if not await asyncio.to_thread(self._office.questions.keep, question, now):
                    refusal = self._too_many()
        except BillError as error:
            refusal = _broken(error)
        named = ("x-request-id", question.request_id)
        if refusal is not None:
            self._office.refuse(reply, refusal, (named,))
            return
        path = STREAMS + quote(question.request_id, safe="")
        ticket = self._office.seal.ticket(question.caller, question.request_id, now)
        answer = {"id": question.request_id, "url": f"{path}?ticket={ticket}"}
        headers = (
            ("content-type", "application/json"),
            ("cache-control", "no-store"),
            ("preference-applied", RESPOND_ASYNC),
            # Without the ticket: whoever writes headers into logs does not write that.
            ("location", path),
            named,
        )
        reply.send(202, headers, json.dumps(answer).encode())

    def _too_many(self) -> Refusal:
        most = self._office.settings.questions_per_caller
        why = f"{most} requests of this caller are kept to be followed already"
        return Refusal(429, why, retry_after=RETRY_SECONDS)

    async def _refusal(self, question: Question, asked: Ask) -> Refusal | None:
        """What would be said to it anyway, and is of no use to an EventSource."""
        office = self._office
        found = choose(office.standings, asked.model or None, (), office.now())
        if isinstance(found, NoBackend) and found.retry_after is None:
            return Refusal(found.status, found.why, "model")
        opened = Opened(
            question.request_id,
            question.caller,
            question.key,
            asked.model,
            asked.route,
            office.wall(),
        )
        admission = await office.bill.would_admit(opened)
        return None if admission is Admission.NEW else not_let_in(admission, question.key)

    def follower(self, request: Request) -> Follower | Refusal:
        """Who wants to follow, or what is wrong with it."""
        if request.method != "GET":
            return Refusal(405, f"a stream is followed by GET, not {request.method}")
        request_id = unquote(request.path.removeprefix(STREAMS))
        tickets = parse_qs(request.query, keep_blank_values=True).get("ticket")
        caller = self._keys.caller(request.headers.get("authorization", ""))
        whose = caller.id if caller else ""
        if tickets:
            ticket = self._office.seal.open_ticket(tickets[-1], request_id, self._office.wall())
            if isinstance(ticket, NotGood):
                return ticket.refusal
            whose = ticket.caller if self._keys.knows(ticket.caller) else ""
        last = followed(request.headers.get("last-event-id", ""), request_id)
        if not whose:
            return UNKNOWN
        return last.refusal if isinstance(last, NotGood) else Follower(whose, last)

    async def run(self, follower: Follower, reply: Reply) -> None:
        """Answer a follower."""
        try:
            await self._run(follower, reply)
        except BillError as error:
            self._office.refuse(reply, _broken(error))
        except AskError as error:  # what was good where it was asked is not good here
            self._office.refuse(reply, Refusal(400, error.why, error.param))

    async def _run(self, follower: Follower, reply: Reply) -> None:
        office, last, caller = self._office, follower.last, follower.caller
        if await self._taking_up.retell(last, caller, reply):
            return
        stage = await office.bill.stage(caller, last.request_id)
        if stage is End.COMPLETE:
            reply.send(204, (), b"")
            return
        if stage is Admission.BUSY:
            self._office.refuse(reply, BUSY)
            return
        if not last.number and stage is not End.PARTIAL:
            find, now = office.questions.find, office.wall()
            question = await asyncio.to_thread(find, last.request_id, caller, now)
            if isinstance(question, Question):
                await self._answer(question, reply)
                return
            if question.why is not Why.NOT_KEPT:
                self._office.refuse(reply, question.refusal)
                return
        request = Request("POST", STREAMS, "", HEADERS, b"")
        await self._taking_up.run(Wish(None, last), request, caller, reply)

    async def _answer(self, question: Question, reply: Reply) -> None:
        office, asked = self._office, question.ask
        if question.request_id in office.in_flight:
            self._office.refuse(reply, BUSY)
            return
        stream = Stream(asked, question.request_id, question.created)
        head = Head("POST", asked.route, HEADERS, question.request_id)
        wanted = Wanted(stream, head, question.caller, question.key)
        await Generation(office, wanted, reply).run()
        if stream.completion_tokens:
            drop = office.questions.drop
            await asyncio.to_thread(drop, question.request_id, question.caller)


def _broken(error: BillError) -> Refusal:
    return Refusal(503, f"the database: {error}", retry_after=5)
