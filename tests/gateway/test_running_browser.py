"""A real browser, the example page and running gateways: whatever is cut, one whole answer."""

import json
from pathlib import Path

from tests.exporter.browser import Browser
from tests.gateway.cutting import Cutting, Losing
from tests.gateway.hearing import CHAT
from tests.gateway.page import FILE, ask, serving_page, shown
from tests.gateway.running import Gateway, Simulated, eventually

TOKENS = 120


def whole_answer(gateway: Gateway) -> str:
    """What the page's question is answered with where nothing is cut."""
    messages = [{"role": "user", "content": "?"}]
    answered = gateway.post(CHAT, {"model": "tiny", "messages": messages})
    return str(answered.json()["choices"][0]["message"]["content"])


def backend(folder: Path) -> Simulated:
    """One whose answers to the page have a length."""
    return Simulated(folder, "gpu-a", steps_per_second=40, max_model_len=TOKENS + 16)


def asked(gateway: Gateway) -> str:
    """The one request that is not whole_answer's."""
    [own] = [row for row in gateway.ledger().values() if row.caller != "anonymous"]
    return own.request_id


def test_a_browser_does_not_notice_a_rollout(tmp_path: Path, browser: Browser) -> None:
    with backend(tmp_path) as server, serving_page() as page:
        origins = [page]
        backends = {"gpu-a": server.url}
        with Gateway(tmp_path, backends, cors_origins=origins) as gateway:
            expected = whole_answer(gateway)
            says = ask(browser, f"{page}/{FILE.name}", gateway.url, "tiny")
            enough = len(expected) // 4
            eventually(lambda: len(shown(browser)) > enough, "a part of the answer is shown")
            gateway.term_twice()
            assert gateway.wait() == 0
            cut = shown(browser)
            assert expected.startswith(cut)
            assert cut != expected
        with Gateway(
            tmp_path, backends, name="next", port=gateway.port, cors_origins=origins
        ) as following:
            assert says("done"), (browser.complaints(), shown(browser), following.said)
            assert shown(browser) == expected
            row = following.billed(asked(following), "complete")
            assert row.finish_reason == "length"
            assert "ticket=" not in following.said + gateway.said


def test_a_browser_does_not_notice_that_its_connection_breaks(
    tmp_path: Path, browser: Browser
) -> None:
    with (
        backend(tmp_path) as server,
        serving_page() as page,
        Gateway(tmp_path, {"gpu-a": server.url}, cors_origins=[page]) as gateway,
        Cutting(gateway.port, [10, 20, 5]) as way,
    ):
        expected = whole_answer(gateway)
        says = ask(browser, f"{page}/{FILE.name}", way.url, "tiny")
        assert says("done"), (browser.complaints(), shown(browser), json.dumps(expected))
        assert shown(browser) == expected
        assert way.after == []
        gateway.billed(asked(gateway), "complete")


def test_a_browser_gets_the_end_of_an_answer_that_was_lost_on_its_way(
    tmp_path: Path, browser: Browser
) -> None:
    with (
        backend(tmp_path) as server,
        serving_page() as page,
        Gateway(tmp_path, {"gpu-a": server.url}, cors_origins=[page]) as gateway,
        Losing(gateway.port, [TOKENS // 2, 10]) as way,
    ):
        expected = whole_answer(gateway)
        before = server.asked(CHAT)
        says = ask(browser, f"{page}/{FILE.name}", way.url, "tiny")
        assert says("done"), (browser.complaints(), shown(browser), json.dumps(expected))
        assert shown(browser) == expected
        assert way.after == []
        assert server.asked(CHAT) == before + 1
        assert len(gateway.ledger()) == 2
        assert gateway.billed(asked(gateway), "complete").finish_reason == "length"
