"""The end of a request: what the client gets last, and what is written down."""

import json

from gateway.bill import Closed, End
from gateway.carried import snapshot
from gateway.errors import Refusal
from gateway.kept import Left, Taken
from gateway.office import Office
from gateway.outcome import How, Outcome
from gateway.reply import Reply
from gateway.resumable import Resume
from gateway.seal import NotGood, Token, Why
from gateway.step import Step
from gateway.stream import Stream
from gateway.transcript import Transcript
from gateway.whole import Whole

OK = 200
NO_CONTENT = 204
JSON = ("content-type", "application/json")
EVENT_STREAM = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    # nginx would gather a stream up otherwise.
    ("x-accel-buffering", "no"),
)


class Parting:
    """Knows how one request ends. Belongs to the office's loop."""

    def __init__(  # noqa: PLR0913 -- the last two are of one that was taken up
        self,
        office: Office,
        stream: Stream,
        caller: str,
        reply: Reply,
        *,
        taken: Taken | None,
        again: int,
    ) -> None:
        # What is gathered of an answer that is sent whole, until it is sent.
        self.whole = None if stream.ask.stream else Whole(stream.ask)
        self._office = office
        self._stream = stream
        self._caller = caller
        self._reply = reply
        self._taken = taken
        self._closed = False
        keeps = stream.ask.stream and not stream.ask.forbidden
        self._transcript = Transcript(stream.request_id, stream.seq) if keeps else None
        # What earlier runs delivered, and have on their bill.
        self._before = stream.completion_tokens + again

    @property
    def _named(self) -> tuple[tuple[str, str], ...]:
        return (("x-request-id", self._stream.request_id),)

    def gave(self, step: Step) -> None:
        """Keep what was given to the client: its end may not arrive."""
        if self._transcript is None:
            return
        for run in step.runs:
            self._transcript.add_run(run)
        if step.out:
            self._transcript.add(step.out, self._stream.seq)

    def anew(self, stream: Stream) -> None:
        """Forget what was gathered of an answer that is sent whole: it begins again."""
        self._stream = stream
        self.whole = Whole(stream.ask)

    def begin(self) -> None:
        """Send the head of a stream."""
        self._reply.begin(OK, (*EVENT_STREAM, *self._named))

    def refuse(self, refusal: Refusal) -> None:
        """Answer with an error of ours."""
        self._office.refuse(self._reply, refusal, self._named)

    def pass_on(self, outcome: Outcome) -> None:
        """Answer with the error of the backend that was asked last."""
        if outcome.body:
            self._reply.send(outcome.status, (JSON, *self._named), outcome.body)
        else:
            self.refuse(Refusal(503, outcome.why, retry_after=5))

    async def end(self, outcome: Outcome, reason: str) -> None:
        """Send the last of it, and close the bill. ``reason`` is of the shutdown frame."""
        if outcome.how is How.COMPLETE:
            self._finish()
        elif outcome.how is How.CUT and not self._reply.ended:
            if self._reply.begun and self._reply.comes_again and not self._stream.seq:
                self._reply.end()
            elif self._reply.begun:
                await self._cut_off(outcome.why, reason)
            else:
                await self._give_back()
                self.refuse(Refusal(503, outcome.why, retry_after=1))
        elif outcome.how in (How.GONE, How.UNREAD) and self._can_go_on:
            await self._keep(self._office.seal.token(self._caller, self._office.wall()))
        ends = {How.COMPLETE: End.COMPLETE, How.REFUSED: End.REFUSED}
        self._close(ends.get(outcome.how, self._torn), outcome.how)
        if outcome.how is How.COMPLETE and self._transcript is not None:
            self._transcript.pack()
            self._office.finished.keep(self._caller, self._transcript, self._office.now())

    def fail(self) -> None:
        """End it when something is wrong with ourselves."""
        if not self._reply.ended:
            self._reply.cut()
        self._close(self._torn, "error")

    @property
    def _torn(self) -> End:
        """How an answer ends that does not come to its end: one that is sent whole gave nothing."""
        sent = self.whole is None and self._stream.completion_tokens
        return End.PARTIAL if sent else End.FAILED

    @property
    def _sent(self) -> int:
        """The tokens of this run that the client has."""
        if self.whole is not None:
            return 0
        return max(0, self._stream.completion_tokens - self._before)

    def _close(self, end: End, how: str) -> None:
        stream = self._stream
        if self._closed:
            return
        self._closed = True
        self._office.counts.closed(
            end,
            how,
            # What is taken up had its prompt charged before.
            prompt_tokens=0 if self._taken is not None else stream.prompt_tokens,
            output_tokens=self._sent,
        )
        self._office.bill.close(
            stream.request_id,
            Closed(
                end=end,
                finish_reason=stream.finish_reason or "",
                prompt_tokens=stream.prompt_tokens,
                completion_tokens=self._sent,
                at=self._office.wall(),
            ),
        )

    def _finish(self) -> None:
        if self.whole is not None:
            self._office.bill.add(self._stream.request_id, self._stream.delivered)
            self._reply.send(OK, (JSON, *self._named), self.whole.body())
            self.whole = None
        elif self._reply.begun:
            self._reply.end()
        elif self._reply.comes_again:
            self._reply.send(NO_CONTENT, self._named, b"")
        else:  # whoever took it up had all of it
            self.refuse(NotGood(Why.NOT_KEPT).refusal)

    @property
    def _can_go_on(self) -> bool:
        stream = self._stream
        never = stream.resume[0] is Resume.NEVER or stream.ask.forbidden
        return bool(stream.ask.stream and stream.seq and not never)

    @property
    def kept(self) -> bytes | None:
        """What is needed to go on with it from here; None where it cannot or must not be."""
        return json.dumps(snapshot(self._stream)).encode() if self._can_go_on else None

    async def _cut_off(self, why: str, reason: str) -> None:
        """Send a frame that no client takes for the answer's end, once it is kept durably."""
        refusal = Refusal(503, f"the answer was cut off: {why}", retry_after=1)
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
        self._reply.write(said)
        self._reply.end()

    async def _give_back(self) -> None:
        if self._taken is not None:
            await self._office.shelf.give_back(self._taken, self._caller)

    async def _keep(self, token: Token) -> None:
        if (kept := self.kept) is not None:
            left = Left(token, self._caller, self._stream.request_id, kept)
            await self._office.shelf.keep(left)
