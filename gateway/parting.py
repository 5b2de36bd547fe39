"""The end of a request: what the client gets last, and what is written down."""

import json

from gateway.ask import Ask
from gateway.bill import Closed, End
from gateway.errors import Refusal
from gateway.kept import Left
from gateway.office import Office
from gateway.outcome import How, Outcome
from gateway.resumable import Resume
from gateway.seal import Token
from gateway.stream import Stream
from gateway.whole import Whole
from gateway.wire import Reply

OK = 200
JSON = ("content-type", "application/json")
EVENT_STREAM = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    # nginx would gather a stream up otherwise.
    ("x-accel-buffering", "no"),
)


class Parting:
    """Knows how one request ends. Belongs to the office's loop."""

    def __init__(self, office: Office, ask: Ask, stream: Stream, caller: str, reply: Reply) -> None:
        self.whole = None if ask.stream else Whole(ask)
        self._office = office
        self._ask = ask
        self._stream = stream
        self._caller = caller
        self._reply = reply
        # What another gateway delivered, and charged.
        self._before = stream.completion_tokens

    @property
    def _named(self) -> tuple[tuple[str, str], ...]:
        return (("x-request-id", self._stream.request_id),)

    def begin(self) -> None:
        """Send the head of a stream."""
        self._reply.begin(OK, (*EVENT_STREAM, *self._named))

    def refuse(self, refusal: Refusal) -> None:
        """Answer with an error of ours."""
        self._office.counts.refused(str(refusal.status))
        self._reply.send(refusal.status, (*refusal.headers, *self._named), refusal.body)

    def pass_on(self, outcome: Outcome) -> None:
        """Answer with the error of the backend that was asked last."""
        if outcome.body:
            self._reply.send(outcome.status, (JSON, *self._named), outcome.body)
        else:
            self.refuse(Refusal(503, outcome.why, retry_after=5))

    async def end(self, outcome: Outcome, reason: str) -> None:
        """Send the last of it, and close the bill. ``reason`` is of the shutdown frame."""
        stream = self._stream
        if outcome.how is How.COMPLETE:
            self._finish()
        elif outcome.how is How.CUT and not self._reply.ended:
            await self._cut_off(outcome.why, reason)
        elif outcome.how is How.GONE and self._can_go_on:
            await self._keep(self._office.seal.token(self._caller, self._office.wall()))
        tokens = stream.completion_tokens
        ends = {How.COMPLETE: End.COMPLETE, How.REFUSED: End.REFUSED}
        end = ends.get(outcome.how, End.PARTIAL if tokens else End.FAILED)
        self._office.counts.closed(end, outcome.how)
        self._office.bill.close(
            stream.request_id,
            Closed(
                end=end,
                finish_reason=stream.finish_reason or "",
                prompt_tokens=stream.prompt_tokens,
                completion_tokens=tokens - self._before,
                at=self._office.wall(),
            ),
        )

    def _finish(self) -> None:
        if self.whole is None:
            self._reply.end()
        else:
            self._reply.send(OK, (JSON, *self._named), self.whole.body())

    @property
    def _can_go_on(self) -> bool:
        stream = self._stream
        never = stream.resume[0] is Resume.NEVER or stream.ask.forbidden
        return bool(self._ask.stream and stream.seq and not never)

    async def _cut_off(self, why: str, reason: str) -> None:
        """Send a frame that no client takes for the answer's end, once it is kept durably."""
        refusal = Refusal(503, f"the answer was cut off: {why}", retry_after=1)
        if self.whole is not None:
            self.refuse(refusal)
            return
        office = self._office
        token = office.seal.token(self._caller, office.wall()) if self._can_go_on else None
        frame: dict[str, object] = {
            "error": refusal.error,
            "type": "shutdown",
            "reason": reason,
            "requestId": self._stream.request_id,
            "generatedTokens": self._stream.completion_tokens,
            "resumeToken": token.text if token else None,
            "timestamp": int(office.wall()),
        }
        # What is kept has this frame's number: the next event's is the one after it.
        said = self._stream.goodbye(frame)
        if token is not None:
            await self._keep(token)
        if not self._reply.begun:
            self.begin()
        self._reply.write(said)
        self._reply.end()

    async def _keep(self, token: Token) -> None:
        stream = self._stream
        snapshot = json.dumps(stream.snapshot()).encode()
        await self._office.shelf.keep(Left(token, self._caller, stream.request_id, snapshot))
