"""What a command line does to a vLLM server: restart it, ask its model, or check it properly."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from fleet.recognise import names_vllm

MOST_CHARACTERS = 10_000
REQUEST = re.compile(
    r"/v1/(?:chat/completions|completions|embeddings|responses|messages|rerank|score)\b"
    r"|/(?:generate|invocations|pooling)(?=[\"'\s?]|$)|\bchat\.completions\.create\b"
)
LOOK = re.compile(r"/(?:health\w*|v1/models|metrics)(?![\w.-])")
CHECK = re.compile(r"\bvllm-exporter\s+check\b")
# The end of what stands before a request's path: scheme, host and port.
BASE_URL = re.compile(r"[\w.:/@${}\[\]-]*$")
MOST_BASE = 300

_CONTAINERS = frozenset({"restart", "kill", "stop"})
_UNITS = frozenset(
    {"restart", "try-restart", "reload-or-restart", "try-reload-or-restart", "stop", "kill"}
)
ANY: frozenset[str] = frozenset()
# The programs that restart or kill, and the words by which they do it.
VERBS: Mapping[str, frozenset[str]] = {
    "systemctl": _UNITS,
    "service": frozenset({"restart", "stop"}),
    "docker": _CONTAINERS,
    "podman": _CONTAINERS,
    "nerdctl": _CONTAINERS,
    "docker-compose": _CONTAINERS | {"down", "--force-recreate"},
    "podman-compose": _CONTAINERS | {"down", "--force-recreate"},
    "supervisorctl": frozenset({"restart", "stop"}),
    "kubectl": frozenset({"restart", "delete", "scale"}),
    "oc": frozenset({"restart", "delete", "scale"}),
    "pkill": ANY,
    "killall": ANY,
    "kill": ANY,
}
_KILLERS = frozenset({"pkill", "killall", "kill"})
_WORKLOAD = re.compile(r"(?:po|pods?|deploy\w*|sts|statefulsets?|ds|daemonsets?|rs|jobs?)(?:/.*)?")


@dataclass(frozen=True)
class Deeds:
    """What a command line does to a vLLM server; an empty text stands for nothing."""

    restarts: str = ""
    asks: str = ""
    looks: str = ""
    checks: bool = False
    unguarded: bool = False

    @classmethod
    def of(cls, text: str, known: frozenset[str] = frozenset()) -> "Deeds":
        """``known`` has the names of units, services and workloads that are vLLM servers."""
        text = text[:MOST_CHARACTERS]
        asks = _asked(text, known)
        concerned = bool(asks) or names_server(text, known)
        return cls(
            restarts=_restarted(text, known, asks=bool(asks)) if concerned else "",
            asks=asks,
            looks=_first(LOOK, text),
            checks=CHECK.search(text) is not None,
            unguarded=_unguarded(text),
        )


def _unguarded(text: str) -> bool:
    """Whether it is `check … || …`, which goes on for status 2, too: that it cannot be judged."""
    _, check, after = text.partition("vllm-exporter check")
    arguments = re.split(r"[;|&\n]", after, maxsplit=1)[0]
    told = "--liveness" in arguments or "$?" in arguments
    return bool(check) and not told and after[len(arguments) :].startswith("||")


def names_server(text: str, known: frozenset[str]) -> bool:
    """Whether a text names vLLM, or a server by its own name."""
    return names_vllm(text) or not known.isdisjoint(_names(text))


def _names(text: str) -> set[str]:
    """What could be the name of a unit, service or workload; of an instance its template's, too."""
    found = re.findall(r"[\w@.-]++(?!=)", text)
    words = {word.removesuffix(".service") for word in found}
    return {*words, *(f"{word.partition('@')[0]}@" for word in words if "@" in word)}


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[0] if found else ""


def _asked(text: str, known: frozenset[str]) -> str:
    """The request to a model, where it does not go to a public provider."""
    found = REQUEST.search(text)
    if found is None:
        return ""
    asked = found[0].strip()
    before = text[max(0, found.start() - MOST_BASE) : found.start()]
    base = BASE_URL.search(before) if asked.startswith("/") else None
    if names_server(text, known) or base is None or _near(base[0]):
        return asked
    return ""


def _near(url: str) -> bool:
    """Whether a URL is of a server of one's own."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        host, port = parts.hostname or "", parts.netloc.rpartition(":")[2]
    except ValueError:
        return True
    private = re.match(r"(?:127|10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.", host)
    inside = host.endswith((".local", ".internal", ".lan", ".svc", ".cluster.local"))
    return bool(private) or inside or "." not in host or "$" in url or port == "8000"


def _restarted(text: str, known: frozenset[str], *, asks: bool) -> str:
    """The first part of a command line that restarts or kills a server."""
    for segment in re.split(r"[|;&\n]+|\bthen\b|\belse\b", text):
        words = segment.replace('"', " ").replace("'", " ").strip("() \t").split()
        seen: set[str] = set()
        for at, word in enumerate(words):
            program = word.strip("()`$").rpartition("/")[2]
            if program not in VERBS or program in seen:
                continue
            seen.add(program)
            # What is asked and then killed is the same server; `pgrep -f vllm | xargs kill`
            # has its name in another part.
            named = asks or program in _KILLERS or names_server(segment, known)
            if named and _does(program, words[at + 1 :]):
                return " ".join(words[at:])
    return ""


def _does(program: str, words: list[str]) -> bool:
    verbs = VERBS[program]
    if program == "kill" and words[:1] in (["-0"], ["-l"]):
        return False
    if program == "docker" and words[:1] == ["compose"]:
        verbs = VERBS["docker-compose"]
    if program in ("kubectl", "oc") and not any(map(_WORKLOAD.fullmatch, words)):
        return False
    return verbs is ANY or not verbs.isdisjoint(words)
