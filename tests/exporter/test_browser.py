"""The page for people as a browser shows it: on a phone and on a desk, dark and light."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from exporter.memory import Memory
from exporter.view import BackendRow, rows
from fleet.backend import Kind
from fleet.fetch import Failure, Trouble
from tests.exporter.browser import Browser, served
from tests.exporter.fleets import Clock, remember
from tests.exporter.scenes import HOSTILE, at, everything, working
from tests.fleet.watching import REFUSED

pytestmark = pytest.mark.long

PHONE, DESK = 360, 1280
SCREENS = [(width, scheme) for width in (PHONE, DESK) for scheme in ("light", "dark")]
LOWEST_CONTRAST = 4.5


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    chromium = Browser(tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


def scene() -> tuple[Memory, Clock]:
    """Everything that can be shown, four seconds after the last look."""
    memory, clock = Memory(), Clock()
    everything(memory)
    clock.now = 1004.0
    return memory, clock


@pytest.fixture(scope="module")
def found() -> list[BackendRow]:
    memory, clock = scene()
    return rows(memory.watched(), clock.now)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(*scene()) as address:
        yield address


@pytest.fixture(params=SCREENS, ids=lambda screen: f"{screen[0]} px, {screen[1]}")
def screen(request: pytest.FixtureRequest, browser: Browser, url: str) -> Browser:
    width, scheme = request.param
    browser.open(url, width=width, scheme=scheme)
    return browser


def test_it_is_as_wide_as_the_screen_and_large_enough_to_read(screen: Browser) -> None:
    # A phone zooms out of a page that is too wide: innerWidth is the screen's only if it is not.
    assert screen.run("return innerWidth == screen.width")
    assert screen.run("return document.scrollingElement.scrollWidth <= innerWidth")
    # A box may be cut off without the page being wider.
    cut_off = "return texts.filter(t => t.right > screen.width || t.left < 0)"
    assert screen.run(EVERY_TEXT + cut_off) == []
    assert screen.run(EVERY_TEXT + "return texts.filter(t => t.size < 14)") == []


def test_every_text_stands_out_from_what_is_behind_it(screen: Browser) -> None:
    texts = screen.run(EVERY_TEXT + "return texts")
    assert len(texts) > 100
    assert [t for t in texts if contrast(t["color"], t["behind"]) < LOWEST_CONTRAST] == []


def test_every_backend_has_its_state_its_sentence_its_graphs_and_what_to_do(
    screen: Browser, found: list[BackendRow]
) -> None:
    shown = {item["id"]: item for item in screen.run(BACKENDS)}
    for row in found:
        item = shown[row["backend"]]
        _, _, reason = row["why"].partition(": ")
        assert item["state"] == row["state"]
        assert item["why"] == reason
        assert item["link"] == row["runbook_url"]
        assert len(item["graphs"]) == len(row["engines"])
        assert all(graph["width"] > 100 and graph["height"] > 20 for graph in item["graphs"])
        assert all(graph["words"].startswith("Steps per second: ") for graph in item["graphs"])
        engines = [engine["state"] for engine in row["engines"]]
        assert item["engines"] == (engines if len(engines) > 1 else [])
        assert item["silences"] == sum(engine["quiet_seconds"] > 0 for engine in row["engines"])
    assert len(shown) == len(found)


def test_a_browser_has_nothing_to_complain_of_and_asks_nobody_else(screen: Browser) -> None:
    assert screen.complaints() == []
    asked = [urlsplit(address) for address in screen.asked_for()]
    assert {address.hostname for address in asked if address.scheme != "data"} == {"127.0.0.1"}


def test_what_is_old_is_said_to_be_old(browser: Browser, url: str) -> None:
    browser.open(url)
    assert next(item["id"] for item in browser.run(BACKENDS)) == "abandoned"
    assert browser.run("return document.querySelector('#abandoned .stale').innerText") == (
        "Not looked at for 5 min: what stands here is old."
    )


def test_what_a_server_says_is_text(browser: Browser, url: str) -> None:
    browser.open(url)
    assert browser.run("return document.querySelector('#hostile .why').innerText") == (
        f"{HOSTILE.why}, 3 reads in a row"
    )
    assert (
        browser.run("return document.querySelectorAll('#hostile script, #hostile b').length") == 0
    )


@pytest.fixture
def live() -> Iterator[tuple[str, Memory, Clock]]:
    """A page of its own, of which the memory may change."""
    memory, clock = scene()
    with served(memory, clock) as address:
        yield address, memory, clock


def test_a_change_appears_without_a_hand_and_nothing_else_moves(
    browser: Browser, live: tuple[str, Memory, Clock]
) -> None:
    address, memory, clock = live
    browser.open(address, width=PHONE)
    browser.run("document.querySelector('#router').scrollIntoView({block: 'center'})")
    browser.run("document.querySelector('#idle h3 a').focus({preventScroll: true})")
    browser.run("document.querySelector('#_q').value = 'half a wo'; window.kept = true")
    before = browser.run("return [document.querySelector('#router').getBoundingClientRect().top]")
    remember(memory, *working([1, 2]), REFUSED, backend=at("busy", 90.0), polled_at=1005.0)
    remember(memory, Failure(Trouble.RESET, "<i>cut</i>"), backend=at("new"), polled_at=1005.0)
    clock.now = 1006.0
    assert browser.comes_to("return document.querySelector('#busy').dataset.state == 'down'")
    assert browser.run("return document.querySelector('#new .why').innerText") == "<i>cut</i>"
    assert browser.run("return document.title").startswith("11 of 19 want a person")
    assert browser.run("return document.querySelector('#_summary').innerText") == (
        "11 of 19 want a person"
    )
    after = browser.run("return [document.querySelector('#router').getBoundingClientRect().top]")
    assert after == pytest.approx(before, abs=2.0)
    assert browser.run("return document.activeElement.getAttribute('href')") == "#idle"
    assert browser.run("return [document.querySelector('#_q').value, window.kept]") == [
        *("half a wo", True),
    ]
    assert browser.complaints() == []
    asked = {urlsplit(one).netloc for one in browser.asked_for() if not one.startswith("data:")}
    assert asked == {urlsplit(address).netloc}


def test_an_exporter_that_does_not_answer_is_said_to_be_silent(browser: Browser) -> None:
    with served(*scene()) as address:
        browser.open(address)
        assert browser.run("return document.querySelector('#_old').innerText") == ""
    assert browser.comes_to("return document.querySelector('#_old').innerText")
    assert "What stands here is old." in browser.run(
        "return document.querySelector('#_old').innerText"
    )


def test_without_scripts_the_browser_is_told_to_load_it_again(browser: Browser, url: str) -> None:
    browser.open(url, scripts=False)
    refresh = browser.driver.find_elements("css selector", "meta[http-equiv=refresh]")
    assert [tag.get_attribute("content") for tag in refresh] == ["10"]
    assert browser.driver.find_element("css selector", "#stuck .state").text == "stuck"


def test_one_can_look_for_a_backend_by_keyboard(browser: Browser, url: str) -> None:
    browser.open(url, width=PHONE)
    browser.driver.find_element("id", "_q").send_keys("RANKS\n")
    assert browser.comes_to("return location.search == '?q=RANKS'")
    assert [item["id"] for item in browser.run(BACKENDS)] == ["four-ranks", "two-ranks"]
    browser.driver.find_element("link text", "idle 1").click()
    assert browser.comes_to("return location.search == '?state=idle&q=RANKS'")
    assert "is meant by this" in browser.run("return document.querySelector('main').innerText")


def test_a_backend_stays_the_target_and_in_its_place_among_many(browser: Browser) -> None:
    memory, clock = scene()
    steady = working([30, 60, 90])
    for i in range(300):
        remember(memory, *steady, backend=at(f"gpu-{i}"))
    with served(memory, clock) as address:
        browser.open(f"{address}#gpu-200", width=PHONE)
        place = "return Math.round(document.querySelector(':target').getBoundingClientRect().top)"
        before = browser.run(place)
        assert 0 <= before <= 20
        remember(memory, *steady, REFUSED, backend=at("gpu-3"), polled_at=1005.0)
        clock.now = 1006.0
        assert browser.comes_to("return document.querySelector('#gpu-3').dataset.state == 'down'")
        assert abs(browser.run(place) - before) <= 2
        shown = [item["id"] for item in browser.run(BACKENDS)]
        assert shown == [row["backend"] for row in rows(memory.watched(), clock.now)]


def test_a_backend_that_is_not_there_any_more_is_not_shown_any_more(
    browser: Browser, live: tuple[str, Memory, Clock]
) -> None:
    address, memory, clock = live
    # As much as an answer that fewer and fewer backends fit.
    browser.open(f"{address}?state=idle&state=quiet&state=proxy")
    assert [item["id"] for item in browser.run(BACKENDS)] == ["quiet", "idle", "router"]
    remember(memory, REFUSED, backend=at("quiet", 90.0), polled_at=1005.0)
    remember(memory, REFUSED, backend=at("idle", 90.0), polled_at=1005.0)
    clock.now = 1006.0
    assert browser.comes_to("return !document.querySelector('#quiet')")
    assert "watching" not in browser.run("return document.querySelector('main').innerText")
    assert [item["id"] for item in browser.run(BACKENDS)] == ["router"]
    router = at("router", 90.0, Kind.PROXY)
    remember(memory, REFUSED, backend=router, polled_at=1007.0)
    assert browser.comes_to("return !document.querySelector('#router')")
    assert "is meant by this" in browser.run("return document.querySelector('main').innerText")


def test_an_anchor_leads_to_its_backend(browser: Browser, url: str) -> None:
    browser.open(f"{url}#router", width=PHONE)
    assert browser.comes_to(
        "const box = document.querySelector(':target').getBoundingClientRect();"
        "return box.top >= 0 && box.bottom <= innerHeight"
    )


def contrast(color: list[float], behind: list[float]) -> float:
    """The ratio of WCAG 2 between two colours of 0 to 255."""
    lighter, darker = sorted((_luminance(color), _luminance(behind)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: list[float]) -> float:
    parts = [part / 255 for part in color]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(
    ("color", "ratio"), [([0, 0, 0], 21.0), ([119, 119, 119], 4.48)], ids=["black", "grey"]
)
def test_contrast_on_white_is_as_the_standard_says(color: list[float], ratio: float) -> None:
    assert contrast(color, [255, 255, 255]) == pytest.approx(ratio, abs=0.01)


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
  if (!node.data.trim() || parent.closest("script, style, title")) continue;
  if (!parent.checkVisibility()) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const box = range.getBoundingClientRect();
  const style = getComputedStyle(parent);
  texts.push({ text: node.data, size: parseFloat(style.fontSize), left: box.left, right: box.right,
               color: rgb(style.color).slice(0, 3), behind: behind(parent) });
}
const input = document.querySelector("#_q");
const hint = getComputedStyle(input, "::placeholder");
texts.push({ text: "placeholder", size: parseFloat(hint.fontSize), left: 0, right: 0,
             color: rgb(hint.color).slice(0, 3), behind: behind(input) });
"""
BACKENDS: Any = """
return [...document.querySelectorAll(".backend")].map((item) => ({
  id: item.id,
  state: item.querySelector(".who .state").innerText,
  why: item.querySelector(".what .why").innerText,
  link: item.querySelector(".more a")?.href ?? null,
  engines: [...item.querySelectorAll(".engine .state")].map((badge) => badge.innerText),
  silences: item.querySelectorAll(".waits").length,
  graphs: [...item.querySelectorAll("svg.graph")].map((graph) => ({
    words: graph.getAttribute("aria-label"), ...graph.getBoundingClientRect().toJSON(),
  })),
}));
"""
