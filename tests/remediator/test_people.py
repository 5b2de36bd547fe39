"""The pages for people as a browser shows them: on a phone and on a desk, dark and light."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.exporter.browser import Browser
from tests.exporter.test_browser import contrast
from tests.remediator.scenes import HOSTILE, NAMES, everything
from tests.remediator.site import served, site

pytestmark = pytest.mark.long

PHONE, DESK = 360, 1280
PATHS = ("/", "/backends/gpu-d", f"/backends/{NAMES[-1]}", "/backends/gpu-f", "/backends/gpu-a")
SCREENS = [
    (path, width, scheme)
    for path in PATHS
    for width in (PHONE, DESK)
    for scheme in ("light", "dark")
]
LOWEST_CONTRAST = 4.5


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    chromium = Browser(tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with everything(tmp_path_factory.mktemp("site")) as made, served(made.app) as address:
        yield address


@pytest.fixture(
    params=SCREENS,
    ids=[f"{'index' if s[0] == '/' else s[0][10:15]}, {s[1]} px, {s[2]}" for s in SCREENS],
)
def screen(request: pytest.FixtureRequest, browser: Browser, url: str) -> Browser:
    path, width, scheme = request.param
    browser.open(url + path, width=width, scheme=scheme)
    return browser


def test_it_is_as_wide_as_the_screen_readable_and_asks_nobody_else(screen: Browser) -> None:
    # A phone zooms out of a page that is too wide: innerWidth is the screen's only if it is not.
    assert screen.run("return innerWidth == screen.width")
    assert screen.run("return document.scrollingElement.scrollWidth <= innerWidth")
    texts = screen.run(EVERY_TEXT)
    assert len(texts) > 30
    assert [t for t in texts if t["right"] > screen.run("return innerWidth") or t["left"] < 0] == []
    assert [t for t in texts if t["size"] < 14] == []
    assert [t for t in texts if contrast(t["color"], t["behind"]) < LOWEST_CONTRAST] == []
    assert screen.complaints() == []
    asked = [urlsplit(address) for address in screen.asked_for()]
    assert {one.hostname for one in asked if one.scheme in ("http", "https")} == {"127.0.0.1"}


def test_the_most_urgent_backends_come_first_each_with_its_sentence(
    browser: Browser, url: str
) -> None:
    browser.open(url)
    shown = browser.run(BACKENDS)
    assert [(item["id"], item["state"], item["urgency"]) for item in shown] == [
        ("gpu-b", "given_up", "person"),
        ("gpu-e", "escalated", "person"),
        ("gpu-c", "restarting", "watch"),
        (NAMES[-1], "waiting", "watch"),
        ("gpu-d", "waiting", "watch"),
        ("gpu-f", "held", "watch"),
        ("gpu-a", "ready", "none"),
        ("gpu-g", "ready", "none"),
        ("router", "not_restarted", "none"),
    ]
    why = {item["id"]: item["why"] for item in shown}
    assert why["gpu-b"] == "3 restarts in a row did not help"
    assert why["gpu-c"] == "attempt 3 is acting: 3 streams are left"
    assert why["gpu-d"] == "restarted 5 minutes ago"
    assert browser.run("return document.title") == "2 of 9 want a person · vllm-remediator"
    assert "Mode act: restarts what is proven stuck" in body(browser)


def test_who_holds_what_until_when_and_why_is_shown(browser: Browser, url: str) -> None:
    browser.open(url)
    holds = browser.run("return [...document.querySelectorAll('.hold')].map(i => i.innerText)")
    assert len(holds) == 2
    assert "2026-03-01 13:56:40 UTC" in holds[0]
    assert "alice <a@example.org>" in holds[0]
    assert HOSTILE in holds[0]


def test_what_anybody_wrote_is_text(browser: Browser, url: str) -> None:
    for path in PATHS:
        browser.open(url + path)
        assert browser.run("return document.querySelectorAll('main script, .hold b').length") == 0
        assert browser.run("return document.querySelectorAll('script').length") == 0
    browser.open(f"{url}/backends/{NAMES[-1]}")
    assert HOSTILE in body(browser)


def test_a_link_leads_to_every_question_and_its_answer(browser: Browser, url: str) -> None:
    browser.open(url)
    browser.driver.find_element("css selector", "#gpu-d h3 a").click()
    assert browser.comes_to("return location.pathname == '/backends/gpu-d'")
    questions = browser.run(
        "return [...document.querySelectorAll('.question')].map(i => [i.querySelector('.mark')"
        ".innerText, i.querySelector('code').innerText, i.querySelector('.told').innerText])"
    )
    assert [question[:2] for question in questions] == [
        ["✓", "asked_for"],
        ["✓", "known_backend"],
        ["✓", "firing"],
        ["✓", "already_handled"],
        ["✗", "held"],
    ]
    assert questions[-1][2] == "restarted 5 minutes ago"
    assert "Not asked any more: alert_stands, restarted_since" in body(browser)
    browser.driver.find_element("link text", "All backends").click()
    assert browser.comes_to("return location.pathname == '/'")


def test_a_backends_page_has_its_attempts_its_processes_and_the_commands_to_type(
    browser: Browser, url: str
) -> None:
    browser.open(f"{url}/backends/gpu-a", width=PHONE)
    text = body(browser)
    assert "12 streams were moved, none is left" in text
    assert "vllm-remediator history show 1" in text
    assert 'vllm-remediator hold gpu-a --for 2h --why "…"' in text
    assert "started by somebody else" in text
    assert "1 gateway asked to drain first" in text


def test_nothing_on_a_page_can_be_pressed(browser: Browser, url: str) -> None:
    for path in PATHS:
        browser.open(url + path)
        found = browser.driver.find_elements("css selector", "form, button, input")
        assert found == []


def test_the_policy_lets_nothing_run(tmp_path: Path) -> None:
    with site(tmp_path) as made:
        for path in ("/", "/backends/gpu-a"):
            answer = made.client.get(path)
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; style-src 'sha256-")
            assert "script-src" not in policy
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["Cache-Control"] == "no-store"


def test_a_site_at_rest_says_how_to_hold(browser: Browser, tmp_path: Path) -> None:
    with site(tmp_path) as made, served(made.app) as address:
        browser.open(address, width=PHONE)
        text = body(browser)
        assert 'vllm-remediator hold gpu-a --for 2h --why "…"' in text
        assert "3 backends, none wants a person" in text
        made.stage.clock.advance(100)
        browser.open(address)
        assert "cannot be relied on: no turn for 100 s" in body(browser)
        missing = made.client.get("/backends/gpu-z")
        assert missing.status_code == 404


def body(browser: Browser) -> str:
    return str(browser.run("return document.body.innerText"))


# Every text that is shown: what it says, its size, its edges, its colour and the one behind it.
EVERY_TEXT = """
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const behind = (node) => {
  for (; node; node = node.parentElement) {
    const color = rgb(getComputedStyle(node).backgroundColor);
    if (color.length === 3 || color[3] > 0) return color.slice(0, 3);
  }
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const texts = [];
while (walker.nextNode()) {
  const node = walker.currentNode;
  const parent = node.parentElement;
  if (!node.data.trim() || !parent.checkVisibility()) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const box = range.getBoundingClientRect();
  const style = getComputedStyle(parent);
  texts.push({ text: node.data, size: parseFloat(style.fontSize), left: box.left, right: box.right,
               color: rgb(style.color).slice(0, 3), behind: behind(parent) });
}
return texts;
"""
BACKENDS = """
return [...document.querySelectorAll(".backend")].map((item) => ({
  id: item.id,
  urgency: item.dataset.urgency,
  state: item.querySelector(".who .state").innerText,
  why: item.querySelector(".what .why").innerText,
}));
"""
