"""The exit statuses of all commands that talk to the remediator: a closed set, public API."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """OK: done as asked. UNREACHABLE: the remediator cannot be reached, or cannot answer.

    USAGE: a bad command line or bad settings, or there is no such backend, attempt or hold.
    REFUSED: something stood against the restart, or it did not end well. NOT_AUTHORISED: no token,
    or the wrong one. STOPPED: by the person, who said no or pressed Ctrl-C.
    """

    OK = 0
    UNREACHABLE = 1
    USAGE = 2
    REFUSED = 3
    NOT_AUTHORISED = 4
    STOPPED = 130


class CommandError(Exception):
    """A command ends here; one sentence for stderr, and its exit status."""

    def __init__(self, why: str, status: ExitStatus) -> None:
        super().__init__(why)
        self.status = status
