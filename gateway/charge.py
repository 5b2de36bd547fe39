"""What a relayed answer costs: on the bill before it is sent, closed at its end."""

from collections.abc import Mapping

from gateway.bill import Closed, End, LegEnd
from gateway.office import Office
from gateway.outcome import How
from gateway.tally import Tally, tally_for

BAD = 400  # from here on HTTP's errors


class Charge:
    """Of one request. One that was not let in, as nobody bills it, is counted, not written down."""

    def __init__(self, office: Office, request_id: str) -> None:
        self.tally = Tally()
        self._office = office
        self._id = request_id
        self._is_open = False  # there is a record of it, in our hand
        self._written = 0  # tokens
        self._prompt_is_written = False

    def admitted(self) -> None:
        """The request is on the bill."""
        self._is_open = True

    def leg_begins(self, backend: str) -> None:
        """A backend is about to be asked."""
        if self._is_open:
            self._office.bill.begins(self._id, backend, self._office.wall())

    def leg_ends(self, backend: str, how: How) -> None:
        """What it did for the request is known."""
        if self._is_open:
            tally, at = self.tally, self._office.wall()
            leg = LegEnd(backend, tally.prompt_tokens, tally.tokens, how, at)
            self._office.bill.leg(self._id, leg)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """An answer with this head is about to be sent; an error is free."""
        if status < BAD:
            self.tally = tally_for(headers.get("content-type", ""))

    def add(self, data: bytes) -> None:
        """This piece of it is about to be sent. Raises BillError: it must not be sent then."""
        tally, bill = self.tally, self._office.bill
        tally.add(data)
        if not self._is_open:
            return
        if tally.prompt_tokens and not self._prompt_is_written:
            bill.prompt(self._id, tally.prompt_tokens)
            self._prompt_is_written = True
        if tally.tokens > self._written:
            bill.count(self._id, tally.tokens - self._written)
            self._written = tally.tokens

    def end(self, status: int, *, broken: bool) -> End:
        """How it ended, of an answer with this status; 0: there was none."""
        if status >= BAD or not status:
            return End.REFUSED
        if not broken and self.tally.is_whole:
            return End.COMPLETE
        return End.PARTIAL if self.tally.tokens else End.FAILED

    def close(self, end: End, how: How, backend: str) -> None:
        """Close the bill, if that was not done."""
        if not self._is_open:
            return
        self._is_open = False
        tally, office = self.tally, self._office
        if end is End.COMPLETE and not tally.is_told:
            office.untold(backend)
        office.counts.closed(
            end, how, prompt_tokens=tally.prompt_tokens, output_tokens=tally.tokens
        )
        closed = Closed(end, "", tally.prompt_tokens, tally.tokens, office.wall())
        office.bill.close(self._id, closed)
