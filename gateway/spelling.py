"""Other spellings of the paths that are billed: whoever reads them as those would not be billed.

uvicorn decodes a path once and Starlette lets a line end follow it; with a root path it takes off
what stands in front, and it sends a slash at the end elsewhere. What stands between a server and
us may merge slashes, walk dots, decode once more and know no case. So all of that is folded.
"""

from urllib.parse import unquote

from gateway.ask import ROUTES, Route

MOST_DECODED = 4  # times: each looks at all of the path, and a path may be as long as a head


def meant(path: str) -> Route | None:
    """Return the billed route that a path spells in another way; None where there is none."""
    if path in ROUTES:
        return None
    folded = _folded(path)
    return next((route for route in Route if folded.endswith(route)), None)


def _folded(path: str) -> str:
    for _ in range(MOST_DECODED):
        path = unquote(path)
    for end in "?#;":
        path = path.partition(end)[0]
    walked: list[str] = []
    for each in path.replace("\\", "/").casefold().split("/"):
        name = "".join(letter for letter in each if letter > " ")
        if name == "..":
            del walked[-1:]
        elif name not in ("", "."):
            walked.append(name)
    return "/".join(("", *walked))
