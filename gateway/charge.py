"""What a relayed answer costs: on the bill before it is sent, closed at its end."""

from collections.abc import Mapping

from gateway.bill import Closed, End
from gateway.office import Office
from gateway.outcome import How
from gateway.tally import Tally, tally_for

BAD = 400  # from here on HTTP's errors


class Charge:
    """Of one request. One that is not ``billed`` is counted, and not written down."""

    def __init__(self, office: Office, request_id: str, *, billed: bool) -> None:
        self.tally = Tally()
        self._office = office
        self._id = request_id
        self._billed = billed
        self._written = 0  # tokens
        self._prompt_is_written = False

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """An answer with this head is about to be sent; an error is free."""
        if status < BAD:
            self.tally = tally_for(headers.get("content-type", ""))

    def add(self, data: bytes) -> None:
        """This piece of it is about to be sent. Raises BillError: it must not be sent then."""
        tally, bill = self.tally, self._office.bill
        tally.add(data)
        if not self._billed:
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
        """Close the bill."""
        if not self._billed:
            return
        tally, office = self.tally, self._office
        if end is End.COMPLETE and not tally.is_told:
            office.untold(backend)
        office.counts.closed(
            end, how, prompt_tokens=tally.prompt_tokens, output_tokens=tally.tokens
        )
        closed = Closed(end, "", tally.prompt_tokens, tally.tokens, office.wall())
        office.bill.close(self._id, closed)
