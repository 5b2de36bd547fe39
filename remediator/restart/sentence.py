"""One sentence of what libraries and servers say when something goes wrong."""

MOST_CHARACTERS = 300


def one_line(text: str) -> str:
    """A text on one line of bounded length."""
    return " ".join(text.split())[:MOST_CHARACTERS]


def sentence(error: BaseException) -> str:
    """An error's words: those of the operating system where it is the cause."""
    cause = system_error(error)
    if cause is not None and cause.strerror:
        return one_line(cause.strerror)
    return one_line(str(error)) or type(error).__name__


def system_error(error: BaseException | None) -> OSError | None:
    """The first error of the operating system among what caused an error, if any.

    Libraries wrap it in up to four of their own, the words of which are a tower of brackets.
    """
    while error is not None:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        error = error.__cause__ or error.__context__
    return None
