"""Compose files: their services, and what each says about itself."""

import re

from fleet.placed_yaml import Placed
from fleet.recognise import Described


def is_compose(document: Placed) -> bool:
    """Whether a document is a compose file."""
    return bool(document.word("kind") == "" and services(document))


def services(document: Placed) -> dict[str, Placed]:
    """The services by name; what says nothing about itself is none."""
    found = document.get("services")
    return {name: each for name, each in (found.entries if found else {}).items() if each.entries}


def described(name: str, service: Placed) -> Described:
    """What there is to recognise a service by."""
    ports = service.get("ports")
    return Described(
        name=name,
        image=service.word("image"),
        command=command(service),
        ports=" ".join(f"{each.text} {each.word('target')}" for each in ports.items)
        if ports
        else "",
        looks_at=health_test(service),
    )


def command(service: Placed) -> str:
    """Entry point and command on one line."""
    parts = [service.get(key) for key in ("entrypoint", "command")]
    return " ".join(word.text for part in parts if part for word in (part, *part.items)).strip()


def health_test(service: Placed) -> str:
    """What the healthcheck runs; empty where there is none."""
    test = service.get("healthcheck", "test")
    text = " ".join(word.text for word in (test, *test.items)).strip() if test else ""
    disabled = service.word("healthcheck", "disable").lower() == "true" or text == "NONE"
    return "" if disabled else re.sub(r"^CMD(?:-SHELL)? ", "", text)
