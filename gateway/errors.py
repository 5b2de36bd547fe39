"""What a client is told when it gets no answer, in the shape of OpenAI's errors."""

import json
from dataclasses import dataclass
from http import HTTPStatus

TYPES = {
    HTTPStatus.BAD_REQUEST: "invalid_request_error",
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.NOT_FOUND: "not_found_error",
    HTTPStatus.CONFLICT: "conflict_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "service_unavailable_error",
}


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered; ``retry_after`` is in seconds.

    ``code`` is the status where nothing else is said.
    """

    status: int
    message: str
    param: str | None = None
    retry_after: int | None = None
    code: str | None = None

    @property
    def body(self) -> bytes:
        """As JSON."""
        return json.dumps({"error": self.error}).encode()

    @property
    def error(self) -> dict[str, object]:
        """The object that OpenAI's clients look for."""
        theirs = self.status < HTTPStatus.INTERNAL_SERVER_ERROR
        kind = "invalid_request_error" if theirs else "server_error"
        return {
            "message": self.message,
            "type": TYPES.get(HTTPStatus(self.status), kind),
            "param": self.param,
            "code": self.code or self.status,
        }

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The answer's headers."""
        json_type = ("content-type", "application/json")
        if self.retry_after is None:
            return (json_type,)
        return (json_type, ("retry-after", str(self.retry_after)))
