"""HAProxy in front of the gateway.

What HAProxy does (its Configuration Manual, 2.6 and later):
- timeout client and timeout server end a stream that is silent for so long; unset they are
  infinite. timeout tunnel takes their place in TCP mode, where it is set.
- A server with `check` is asked every `inter` (2s) and is down after `fall` (3) failures, with
  `fastinter` between them where it is set. on-marked-down shutdown-sessions then closes every
  connection to it: a gateway that drains would lose its streams by saying so.
- retry-on (conn-failure) with more than that sends a request again that was sent already; 503 is
  what a gateway says before it does anything. http-request disable-l7-retry takes requests out.
- hard-stop-after (none) bounds how long an old process goes on after a reload.
- option abortonclose drops what a client no longer waits for while it is queued.
"""

from collections.abc import Iterator, Mapping, Sequence

from fleet.finding import Finding
from gateway.doctor import proxy
from gateway.doctor.haproxy_file import Line, Section, haproxy_seconds
from gateway.doctor.nginx import Peers
from gateway.doctor.proxy import Wait
from gateway.doctor.rule import Place, Rule
from gateway.doctor.times import Times

SAFE_RETRIES = frozenset(
    {"none", "conn-failure", "0rtt-rejected", "401", "403", "404", "408", "425", "503"}
)
INTER_SECONDS = 2.0
FALL = 3
READY = "/-/ready"


def findings(file: str, found: Sequence[Section], peers: Peers, times: Times) -> Iterator[Finding]:
    """What does not fit in a file with these sections."""
    backends = [each for each in found if each.kind in ("backend", "listen")]
    with_servers = [each for each in backends if each.servers]
    ours = [each for each in with_servers if _is_ours(each, peers)]
    for backend in ours:
        yield from _of_backend(file, backend, times)
    names = {each.name for each in ours}
    for section in found:
        if (section in ours and section.kind == "listen") or (
            section.kind == "frontend" and _leads_to(section, names)
        ):
            yield from _of_timeout(file, section, "client", times)
    if ours:
        yield from _of_global(file, found, times)
    elif with_servers:
        why = "no backend here has a gateway or a vLLM server in it, by any name that is known"
        yield Place(file, with_servers[0].number).finding(Rule.TARGET_UNKNOWN, why)


def _is_ours(section: Section, peers: Peers) -> bool:
    servers = (" ".join(each.words[:4]) for each in section.servers)
    return peers.names(" ".join([section.name, *servers]))


def _leads_to(section: Section, names: set[str]) -> bool:
    lines = (*section.all("default_backend"), *section.all("use_backend"))
    return any(not names.isdisjoint(line.words) for line in lines)


def _of_timeout(file: str, section: Section, side: str, times: Times) -> Iterator[Finding]:
    tcp = section.last("mode", "tcp") is not None and section.last("mode") == section.last(
        "mode", "tcp"
    )
    tunnel = section.last("timeout", "tunnel") if tcp else None
    line = tunnel or section.last("timeout", side)
    if line is None or len(line.words) < 3:  # noqa: PLR2004 -- timeout server 30s
        return
    have = haproxy_seconds(line.words[2])
    if have:
        name = f"timeout {line.words[1]}"
        subject = f"{section.name}: {name}"
        fix = f"{name} {{seconds}}s"
        whole = side == "server" or tcp
        yield from proxy.idle(
            Wait(Place(file, line.number), subject, have, fix), times, whole=whole
        )


def _of_backend(file: str, backend: Section, times: Times) -> Iterator[Finding]:
    yield from _of_timeout(file, backend, "server", times)
    retry = backend.last("retry-on")
    risky = [word for word in retry.words[1:] if word not in SAFE_RETRIES] if retry else []
    if retry and risky and not backend.all("http-request", "disable-l7-retry"):
        place = Place(file, retry.number)
        yield proxy.retry(place, f"retry-on {' '.join(risky)}", "retry-on conn-failure 503")
    for name in ("httpclose", "http-server-close", "forceclose"):
        closes = backend.option(name)
        if closes:
            why = f"{backend.name}: option {name}: each request makes a connection of its own"
            place = Place(file, closes.number)
            fix = "option http-keep-alive"
            yield place.finding(Rule.HTTP_CLOSE, why, have=name, need="http-keep-alive", fix=fix)
    if backend.option("abortonclose") is None:
        why = (
            f"{backend.name}: a request that is queued is sent on though its client has gone, and "
        )
        why += "billed"
        yield Place(file, backend.number).finding(Rule.ABORT_ON_CLOSE, why)
    yield from _of_checks(file, backend, times)


def _of_checks(file: str, backend: Section, times: Times) -> Iterator[Finding]:
    asked, at = _asked(backend)
    defaults: dict[str, str] = {}
    for line in backend.all("default-server"):
        _take(line.words[1:], defaults)
    for server in backend.servers:
        said = dict(defaults)
        _take(server.words[3:], said)
        place = Place(file, server.number)
        if said.get("on-marked-down") == "shutdown-sessions":
            why = (
                f"{backend.name}: on-marked-down shutdown-sessions cuts every stream of a gateway "
                "as soon as it says that it drains"
            )
            yield place.finding(Rule.CHECK_CUTS, why)
        if "track" in said or "disabled" in said:
            continue
        if "check" not in said or asked != READY:
            have = (asked or "the port alone") if "check" in said else "nothing"
            why = (
                f"{backend.name}: its check asks {have}, has to ask {READY}: a gateway that drains "
                "goes on getting requests, and refuses them"
            )
            where = Place(file, at.number) if at and "check" in said else place
            yield where.finding(Rule.CHECK_READY, why, have=have, need=READY)
        else:
            yield from _of_slow(place, backend, said, times)


def _of_slow(
    place: Place, backend: Section, said: Mapping[str, str], times: Times
) -> Iterator[Finding]:
    inter = haproxy_seconds(said.get("inter", "")) or INTER_SECONDS
    fast = haproxy_seconds(said.get("fastinter", "")) or inter
    fall = int(said["fall"]) if said.get("fall", "").isdecimal() else FALL
    have = inter + max(0, fall - 1) * fast
    if have > times.propagation:
        why = (
            f"{backend.name}: a check notices after {have:g} s (inter {inter:g} s, fall {fall}), "
            f"has to after at most {times.propagation:g} s (propagation): what comes in between is "
            "refused"
        )
        need = f"at most {times.propagation:g} s"
        yield place.finding(Rule.CHECK_SLOW, why, have=f"{have:g} s", need=need)


def _asked(backend: Section) -> tuple[str, Line | None]:
    """The page that checks ask for, and the line that says so."""
    option = backend.option("httpchk")
    sent = [line for line in backend.all("http-check", "send") if "uri" in line.words]
    if sent:
        line = sent[-1]
        return " ".join(line.words[line.words.index("uri") + 1 :][:1]), line
    if option:
        pages = [word for word in option.words[2:] if word.startswith("/")]
        return (pages[0] if pages else "/"), option
    return "", None


def _take(words: Sequence[str], said: dict[str, str]) -> None:
    """Put a server's parameters over what was said; each with the word that follows it."""
    for word, after in zip(words, (*words[1:], ""), strict=False):
        if word.startswith("no-"):
            said.pop(word.removeprefix("no-"), None)
        said[word] = after


def _of_global(file: str, found: Sequence[Section], times: Times) -> Iterator[Finding]:
    head = next((each for each in found if each.kind == "global"), None)
    line = head.last("hard-stop-after") if head else None
    if line and len(line.words) > 1:
        have = haproxy_seconds(line.words[1])
        if have:
            place, fix = Place(file, line.number), "hard-stop-after {seconds}s"
            yield from proxy.shutdown(Wait(place, "hard-stop-after", have, fix), times)
    elif head:
        why = (
            "hard-stop-after is not set: an old process goes on after a reload for as long as its "
        )
        why += "streams do, which cuts none, and may keep it for hours"
        yield Place(file, head.number).finding(Rule.PROXY_UNLIMITED, why, have="not set")
