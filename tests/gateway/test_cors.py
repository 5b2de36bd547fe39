import pytest

from gateway.cors import ALWAYS_ALLOWED, EXPOSED, Headers, headers_for, mistake, preflight

PAGE = "https://app.example.org"
EXPOSE = ("access-control-expose-headers", EXPOSED)
VARY = ("vary", "Origin")


@pytest.mark.parametrize(
    ("origin", "origins", "headers"),
    [
        pytest.param(PAGE, (), (), id="it is off by default"),
        pytest.param(
            PAGE,
            (PAGE,),
            (("access-control-allow-origin", PAGE), VARY, EXPOSE),
            id="an origin that is listed may",
        ),
        pytest.param("https://app.example.org.evil.net", (PAGE,), (VARY,), id="a longer one not"),
        pytest.param("http://app.example.org", (PAGE,), (VARY,), id="another scheme not"),
        pytest.param("null", (PAGE,), (VARY,), id="an opaque one not"),
        pytest.param(None, (PAGE,), (VARY,), id="no browser: caches are told all the same"),
        pytest.param(PAGE, ("*",), (("access-control-allow-origin", "*"), EXPOSE), id="any may"),
        pytest.param(None, ("*",), (), id="no browser asks"),
    ],
)
def test_headers_of_answers(origin: str | None, origins: tuple[str, ...], headers: Headers) -> None:
    assert headers_for(origin, origins) == headers


def allowed_headers(asked: str | None) -> str:
    found = preflight(PAGE, "POST", asked, (PAGE,))
    assert found is not None
    return dict(found)["access-control-allow-headers"]


def test_a_preflight_may_send_what_it_asks_for() -> None:
    found = preflight(PAGE, "POST", "authorization, x-stainless-os", (PAGE,))
    assert found == (
        ("access-control-allow-origin", PAGE),
        VARY,
        ("access-control-allow-methods", "GET, POST"),
        ("access-control-allow-headers", "authorization, x-stainless-os"),
        ("access-control-max-age", "600"),
    )


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(None, id="none"),
        pytest.param("a\r\nset-cookie: b", id="a line of its own"),
        pytest.param("a" * 5_000, id="very long"),
    ],
)
def test_what_is_no_list_of_headers_is_not_sent_back(asked: str | None) -> None:
    assert allowed_headers(asked) == ALWAYS_ALLOWED


def test_a_preflight_of_an_origin_that_may_not_gets_nothing() -> None:
    assert preflight("https://evil.net", "POST", None, (PAGE,)) == (VARY,)


@pytest.mark.parametrize(
    ("origin", "method", "origins"),
    [(PAGE, "POST", ()), (None, "POST", (PAGE,)), (PAGE, None, (PAGE,))],
)
def test_what_is_no_preflight_is_none(
    origin: str | None, method: str | None, origins: tuple[str, ...]
) -> None:
    assert preflight(origin, method, None, origins) is None


def test_cookies_are_never_allowed() -> None:
    for origins in (("*",), (PAGE,)):
        for headers in (headers_for(PAGE, origins), preflight(PAGE, "GET", None, origins) or ()):
            assert "access-control-allow-credentials" not in dict(headers)


@pytest.mark.parametrize("origin", ["*", PAGE, "http://localhost:3000", "http://[::1]:3000"])
def test_origins_as_browsers_send_them_are_right(origin: str) -> None:
    assert mistake(origin) == ""


@pytest.mark.parametrize(
    "origin",
    [
        "app.example.org",
        "https://app.example.org/",
        "https://app.example.org/page",
        "https://*.example.org",
        "https://user@app.example.org",
        "https://App.example.org",
        "https://app.example.org:443",
        "https://app.example.org:x",
        "ftp://app.example.org",
        "null",
        "",
    ],
)
def test_what_no_browser_sends_is_a_mistake(origin: str) -> None:
    assert mistake(origin).startswith("is not '*' or an origin")
