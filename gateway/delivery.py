"""What a client is given.

Before it is sent it is put on the bill, and what another gateway needs to go on is written down.
"""

from gateway.office import Office
from gateway.outlet import behind
from gateway.parting import Parting
from gateway.reply import Connection, Reply
from gateway.step import Step
from gateway.stream import Stream

COMMENT = b": still here\n\n"


class Delivery:
    """Gives one request's client its events, over all legs. Belongs to the office's loop.

    ``sent_at``: when something was sent last, in seconds of the loop's clock. ``tokens_before``:
    how many output tokens there were before the present leg. Raises BillError, and sends nothing
    then.
    """

    def __init__(self, office: Office, stream: Stream, reply: Reply, parting: Parting) -> None:
        self.began = self._sent_at = office.now()
        self.tokens_before = 0
        self._office = office
        self._stream = stream
        self._reply = reply
        self._parting = parting
        self._prompt_told = False
        self._is_admitted = False
        self._counted = 0  # output tokens on the bill whose ids are not known

    def admitted(self) -> None:
        """Begin: the request is on the bill."""
        self._is_admitted = True
        self._stream.line = self._office.bill.line(self._stream.request_id)

    def taken_up(self, again: int) -> None:
        """Begin where another one ended, with ``again`` tokens that are on the bill already."""
        self.admitted()
        self._office.bill.again(self._stream.request_id, again)
        self._keep()

    def begin_leg(self) -> None:
        """Begin a leg."""
        self.tokens_before = len(self._stream.delivered)
        self._prompt_told = False

    def begin_anew(self, stream: Stream) -> None:
        """Begin with nothing, where nothing was sent yet."""
        self._stream = stream

    @property
    def sent_at(self) -> float:
        """When something was sent last."""
        return max(self._sent_at, self._stream.quick_at)

    @property
    def connection(self) -> Connection | None:
        """Where whole chunks can go as they are; None where they cannot."""
        return None if self._parting.whole is not None else self._reply.connection

    def deliver(self, step: Step) -> None:
        """Give what a step came to."""
        stream = self._stream
        if self._parting.whole is not None:  # nothing is sent, or charged, before all is there
            self._parting.whole.add(step.out)
            return
        if step.progress and not self._prompt_told and stream.prompt_tokens:
            self._prompt_told = True
            read = stream.prompt_tokens + self.tokens_before
            self._office.bill.prompt(stream.request_id, stream.prompt_tokens, read)
        if step.marks or step.ids:
            self._write_down(step)
        if stream.unnamed > self._counted:
            self._office.bill.count(stream.request_id, stream.unnamed - self._counted)
            self._counted = stream.unnamed
        if step.out:
            self._send(step.out)
        self._parting.gave(step)

    def comment(self) -> None:
        """Show that we are still there, once it cannot be refused any more by the bill."""
        if self._is_admitted:
            self._send(COMMENT)

    def _send(self, out: bytes) -> None:
        if not self._reply.begun:
            self._office.counts.first_byte(self._office.now() - self.began)
            self._parting.begin()
        self._reply.write(out)
        self._sent_at = self._office.now()

    def _write_down(self, step: Step) -> None:
        stream, bill = self._stream, self._office.bill
        if step.details:
            bill.details(stream.request_id, step.details)
        bill.add(stream.request_id, step.ids, behind(step.marks, len(stream.delivered)))
        if stream.is_news():
            self._keep()

    def _keep(self) -> None:
        """Write down what another gateway needs to go on, should this one be killed."""
        self._office.bill.keep(self._stream.request_id, self._parting.kept or b"")
