"""A request that is not carried out, and how vLLM says so."""

from http import HTTPStatus


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not a malfunction
    """An answer with an error status; ``param`` names the field at fault."""

    def __init__(
        self,
        status: HTTPStatus,
        message: str,
        kind: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind or status.phrase
        self.param = param

    @property
    def body(self) -> dict[str, object]:
        """The JSON that vLLM answers with."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.status.value,
            }
        }


def bad_request(message: str, param: str | None = None) -> Refusal:
    """400: the client has to change its request."""
    return Refusal(HTTPStatus.BAD_REQUEST, message, "BadRequestError", param)


def engine_dead() -> Refusal:
    """500: the engine process is gone."""
    return Refusal(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "InternalServerError",
    )
