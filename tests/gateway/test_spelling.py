"""Which paths a server may read as one that is billed."""

import pytest

from gateway.ask import Route
from gateway.spelling import meant


@pytest.mark.parametrize(
    "path",
    [
        "/v1/%63ompletions",
        "/%76%31/completions",
        "/v1%2fcompletions",
        "/v1%2Fcompletions",
        "/v1/%2563ompletions",
        "/v1/completions/",
        "/v1/completions%2f",
        "/v1/completions%0a",
        "/v1/completions%00",
        "/v1/completions%20",
        "/v1/completions%3Fx",
        "/v1/completions%23x",
        "/v1/completions;x=1",
        "//v1/completions",
        "//v1/completions/",
        "//host/v1/completions",
        "/v1//completions",
        "/v1/./completions",
        "/%2e/v1/completions",
        "/v1/../v1/completions",
        "/v1/other/%2e%2e/completions",
        "/../v1/completions",
        "/v1\\completions",
        "/V1/Completions",
        "/root/v1/completions",
        "v1/completions",
    ],
)
def test_another_spelling_is_known(path: str) -> None:
    assert meant(path) is Route.COMPLETIONS
    for route in Route:
        other = path.replace("/completions", f"/{route.removeprefix('/v1/')}")
        if other != path:
            assert meant(other) is route


@pytest.mark.parametrize(
    "path",
    [
        *Route,
        "/",
        "*",
        "/version",
        "/v1/models/org%2Fname",
        "/v1/completions/render",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/v1/xcompletions",
        "/xv1/completions",
        "/v1/completions/..",
        "/tokenize",
        "/v1/" + "%25" * 20_000 + "63ompletions",
    ],
)
def test_what_is_itself_or_something_else_is_none(path: str) -> None:
    assert meant(path) is None
