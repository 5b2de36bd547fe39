"""The example page in a browser: served, asked, read."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.exporter.browser import Browser

FILE = Path(__file__).parents[2] / "docs/examples/eventsource.html"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of it."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving_page() -> Iterator[str]:
    """The page's origin."""
    handler = partial(Quiet, directory=str(FILE.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, name="page")
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10.0)


def ask(browser: Browser, page: str, gateway: str, model: str = "m") -> Callable[[str], bool]:
    """Fill the page in and ask; what comes tells whether the page comes to say something."""
    browser.open(page)
    fields = {"gateway": gateway, "key": "secret", "model": model, "question": "?"}
    for name, value in fields.items():
        browser.run("document.getElementById(arguments[0]).value = arguments[1]", name, value)
    browser.run("document.querySelector('button').click()")
    say = "return document.getElementById('state').textContent"
    return lambda text: browser.comes_to(f"{say} === {json.dumps(text)}")


def shown(browser: Browser) -> str:
    """The answer so far."""
    return str(browser.run("return document.getElementById('answer').textContent"))
