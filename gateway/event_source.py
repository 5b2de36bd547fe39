"""An answer to a browser's EventSource, which gives up for ever at any status but 200."""

from gateway.parting import EVENT_STREAM, OK
from gateway.reply import Headers, Reply

RETRY = b"retry: 1000\n\n"  # in milliseconds
# What is answered with Retry-After where it may come to another answer soon.
LATER = frozenset({409, 429, 503})


class EventSourceReply(Reply):
    """Says where others get an error that will pass: come again."""

    comes_again = True

    def begin(self, status: int, headers: Headers) -> None:
        """Send the head; a stream begins with the time after which to come again."""
        super().begin(status, headers)
        if status == OK:
            self.write(RETRY)

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole answer; one that says when to ask again is a stream without any event."""
        if status in LATER and any(name == "retry-after" for name, _ in headers):
            self.begin(OK, EVENT_STREAM)
            self.end()
        else:
            super().send(status, headers, body)
