"""nginx in front of the gateway.

What nginx does (nginx.org, ngx_http_proxy_module, ngx_http_core_module, ngx_core_module):
- A directive is inherited from the level above where a level has none of its own;
  proxy_set_header only where a level has no proxy_set_header at all.
- proxy_read_timeout (60s) runs between two reads. proxy_buffering is on, unless the answer has
  X-Accel-Buffering: no, which proxy_ignore_headers can have it ignore.
- Before nginx 1.29.7 proxy_http_version is 1.0 and Connection is close: an answer of HTTP/1.0 has
  no chunks, so the end of a stream that is cut looks as that of a complete one.
- proxy_next_upstream passes a POST on only where it was not sent yet, unless it has
  non_idempotent; with http_503 alone beside it, only what was refused (tried: nginx 1.22). Each
  time it sends the same head: an X-Request-Id made of $request_id is one id (tried, too).
- A server that failed max_fails times (1), in the sense of proxy_next_upstream, is not asked for
  fail_timeout (10s); with all of them so, nginx itself says 502. One alone is always asked.
- An upstream's keepalive_timeout (60s) is how long it keeps an idle connection.
- proxy_ignore_client_abort on keeps the request going when the client has gone.
- worker_shutdown_timeout (none) bounds how long old workers go on after a reload or QUIT.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fleet.finding import Finding
from gateway.doctor import proxy
from gateway.doctor.nginx_file import Directive, Including, NginxFile, nginx_seconds
from gateway.doctor.ours import NAMED
from gateway.doctor.proxy import Wait
from gateway.doctor.rule import Place, Rule
from gateway.doctor.times import Times

READ_SECONDS = 60.0
EVENTS = frozenset({"text/event-stream", "*"})
# What may come when a request is under way; 503 and 429 a gateway says before it does anything.
UNDER_WAY = frozenset({"error", "timeout", "invalid_header", "http_500", "http_502", "http_504"})
# By it the ledger knows a request again that is sent a second time.
REQUEST_ID = "x-request-id"
MODEL = re.compile(r"/v1(?:/|$)")
VLLM = re.compile(r"vllm", re.IGNORECASE)


@dataclass(frozen=True)
class Peers:
    """The names that gateways and vLLM servers have in other files."""

    gateways: frozenset[str] = frozenset()
    servers: frozenset[str] = frozenset()

    def names(self, text: str) -> bool:
        """Whether a text names one of ours."""
        known = self.gateways | self.servers
        return bool(VLLM.search(text) or NAMED.search(text)) or not known.isdisjoint(_words(text))

    def names_server(self, text: str) -> bool:
        """Whether a text names a vLLM server itself, without a gateway in between."""
        return not self.servers.isdisjoint(_words(text)) and self.gateways.isdisjoint(_words(text))


def _words(text: str) -> set[str]:
    return {part for word in re.findall(r"[\w.-]+", text) for part in (word, word.split(".")[0])}


@dataclass
class _Level:
    """What holds at a level: what is written there, and above it."""

    said: dict[str, Directive] = field(default_factory=dict)
    headers: tuple[Directive, ...] = ()
    upstreams: Mapping[str, Directive] = field(default_factory=dict)
    where: str = ""

    def below(self, block: Sequence[Directive], where: str) -> "_Level":
        said = {**self.said, **{each.name: each for each in block if each.block is None}}
        own = tuple(each for each in block if each.name == "proxy_set_header")
        found = {each.args[0]: each for each in block if each.name == "upstream" and each.args}
        return _Level(said, own or self.headers, {**self.upstreams, **found}, where)

    def value(self, name: str, default: str) -> str:
        found = self.said.get(name)
        return found.args[0] if found and found.args else default

    def args(self, name: str) -> tuple[str, ...]:
        found = self.said.get(name)
        return found.args if found else ()

    def place(self, name: str, otherwise: Directive) -> Place:
        found = self.said.get(name, otherwise)
        return Place(found.file, found.line)


def findings(files: Sequence[NginxFile], peers: Peers, times: Times) -> Iterator[Finding]:
    """What does not fit in these files; one that another includes is read where it is included."""
    including = Including(files)
    trees = [(each.path, including.whole(each)) for each in files]
    roots = [_Root(tree, peers) for path, tree in trees if path not in including.included]
    for root in roots:
        yield from root.findings(peers, times)
    any_ours = any(root.ours for root in roots)
    for include in including.missing:
        # One with `*` in it may well include nothing.
        if not (any_ours and "*" in include.args[0]):
            why = f"includes {include.args[0]}, which is not among the files given"
            yield Place(include.file, include.line).finding(Rule.INCLUDE_MISSING, why)


class _Root:
    """A file that no other includes, with all that it includes."""

    def __init__(self, tree: Sequence[Directive], peers: Peers) -> None:
        self._tree = tree
        self._passes = list(_passes(tree, _Level().below(tree, "")))
        self.ours = [(each, level) for each, level in self._passes if _is_ours(each, level, peers)]

    def findings(self, peers: Peers, times: Times) -> Iterator[Finding]:
        for each, level in self.ours:
            yield from _of_pass(each, level, peers, times)
        if self._passes and not self.ours:
            first = self._passes[0][0]
            why = "no location here leads to a gateway or a vLLM server, by any name that is known"
            yield Place(first.file, first.line).finding(Rule.TARGET_UNKNOWN, why)
        if self.ours:
            yield from _of_workers(self._tree, times)


def _passes(block: Sequence[Directive], level: _Level) -> Iterator[tuple[Directive, _Level]]:
    """The directives that pass requests on, with what holds for each."""
    for each in block:
        if each.name == "proxy_pass" and each.args:
            yield each, level
        elif each.block is not None and each.name != "upstream":
            where = " ".join(each.args) if each.name == "location" else level.where
            yield from _passes(each.block, level.below(each.block, where))


def _is_ours(target: Directive, level: _Level, peers: Peers) -> bool:
    return bool(MODEL.search(level.where)) or peers.names(_target(target, level))


def _target(target: Directive, level: _Level) -> str:
    """What a proxy_pass goes to, with the servers of its upstream."""
    servers = (each.args[0] for each in _servers(_upstream(target, level)))
    return " ".join([target.args[0], *servers])


def _upstream(target: Directive, level: _Level) -> Directive | None:
    host = re.sub(r"^\w+://", "", target.args[0]).partition("/")[0]
    return level.upstreams.get(host)


def _servers(upstream: Directive | None) -> list[Directive]:
    inner = upstream.inner if upstream else ()
    return [each for each in inner if each.name == "server" and each.args]


def _of_upstream(target: Directive, level: _Level, times: Times) -> Iterator[Finding]:
    upstream = _upstream(target, level)
    servers = _servers(upstream)
    for each in servers if len(servers) > 1 else ():
        said = [word for word in each.args[1:] if word.startswith("max_fails=")]
        have = said[0] if said else "max_fails=1 (by default)"
        if have != "max_fails=0":
            why = (
                f"{each.args[0]} has {have}, has to have max_fails=0: a gateway that has refused "
                "one request gets none for fail_timeout, and with all of them so nginx itself "
                "answers 502"
            )
            place = Place(each.file, each.line)
            yield place.finding(Rule.MAX_FAILS, why, have=have, need="max_fails=0")
    for each in upstream.inner if upstream else ():
        have_seconds = nginx_seconds(each.args[0]) if each.args else None
        if each.name == "keepalive_timeout" and have_seconds is not None:
            place, fix = Place(each.file, each.line), "keepalive_timeout {seconds}s;"
            yield from proxy.reuse(Wait(place, "keepalive_timeout", have_seconds, fix), times)


def _of_pass(target: Directive, level: _Level, peers: Peers, times: Times) -> Iterator[Finding]:
    have = nginx_seconds(level.value("proxy_read_timeout", "60s"))
    if have is not None:
        by_default = "" if "proxy_read_timeout" in level.said else " (by default)"
        place = level.place("proxy_read_timeout", target)
        subject = f"proxy_read_timeout{by_default}"
        yield from proxy.idle(Wait(place, subject, have, "proxy_read_timeout {seconds}s;"), times)
    yield from _of_connection(target, level)
    yield from _of_buffering(target, level, peers)
    yield from _of_upstream(target, level, times)
    again = level.args("proxy_next_upstream")
    known_again = any(
        each.args[0].lower() == REQUEST_ID and each.args[1:] != ("",)
        for each in level.headers
        if each.args
    )
    if "non_idempotent" in again and not (UNDER_WAY.isdisjoint(again) or known_again):
        place = level.place("proxy_next_upstream", target)
        setting = f"proxy_next_upstream {' '.join(again)}"
        yield proxy.retry(place, setting, "proxy_next_upstream error timeout;")
    if level.value("proxy_ignore_client_abort", "off") == "on":
        why = "proxy_ignore_client_abort keeps a request going whose client has gone: it is "
        why += "generated to its end, and billed"
        place = level.place("proxy_ignore_client_abort", target)
        yield place.finding(Rule.CLIENT_ABORT, why, have="on", need="off")
    if level.value("gzip", "off") == "on" and not EVENTS.isdisjoint(level.args("gzip_types")):
        why = "gzip_types has text/event-stream in it: each event is packed and flushed by itself, "
        why += "which costs more than it saves"
        yield level.place("gzip_types", target).finding(Rule.GZIP_EVENTS, why)


def _of_connection(target: Directive, level: _Level) -> Iterator[Finding]:
    version = level.value("proxy_http_version", "")
    if version in ("", "1.0"):
        have = version or "1.0 (by default before nginx 1.29.7)"
        why = (
            f"proxy_http_version is {have}, has to be 1.1: the end of an answer is a closed "
            "connection, and a stream that is cut looks complete"
        )
        place = level.place("proxy_http_version", target)
        yield place.finding(Rule.HTTP_VERSION, why, have=have, need="1.1")
    said = [each for each in level.headers if each.args and each.args[0].lower() == "connection"]
    if not any(each.args[1:] == ("",) for each in said):
        have = said[0].args[1] if said and len(said[0].args) > 1 else "close (by default)"
        why = f"Connection is {have}: each request makes a connection to the gateway of its own"
        first = said[0] if said else target
        place = Place(first.file, first.line)
        yield place.finding(Rule.HTTP_CLOSE, why, have=have, need="empty")


def _of_buffering(target: Directive, level: _Level, peers: Peers) -> Iterator[Finding]:
    if level.value("proxy_buffering", "on") == "off":
        return
    by_default = "" if "proxy_buffering" in level.said else " (by default)"
    place = level.place("proxy_buffering", target)
    ignored = "X-Accel-Buffering" in level.args("proxy_ignore_headers")
    if ignored or peers.names_server(_target(target, level)):
        whose = "its X-Accel-Buffering is ignored" if ignored else "vLLM sends no X-Accel-Buffering"
        why = f"proxy_buffering is on{by_default}, has to be off: {whose}, and events wait until a "
        why += "buffer is full"
        yield place.finding(Rule.BUFFERING, why, have="on", need="off")
    else:
        why = f"proxy_buffering is on{by_default}: only the gateway's X-Accel-Buffering: no keeps "
        why += "events from waiting until a buffer is full"
        yield place.finding(Rule.BUFFERING_DEFAULT, why, have="on", need="off")


def _of_workers(tree: Sequence[Directive], times: Times) -> Iterator[Finding]:
    """Of the main level, where the file has one."""
    said = next((each for each in tree if each.name == "worker_shutdown_timeout"), None)
    main = next((each for each in tree if each.name in ("http", "events")), None)
    if said and said.args:
        have = nginx_seconds(said.args[0])
        if have:
            place, fix = Place(said.file, said.line), "worker_shutdown_timeout {seconds}s;"
            yield from proxy.shutdown(Wait(place, "worker_shutdown_timeout", have, fix), times)
    elif main:
        why = "worker_shutdown_timeout is not set: old workers go on after a reload for as long as "
        why += "their streams do, which cuts none, and may keep them for hours"
        yield Place(main.file, main.line).finding(Rule.PROXY_UNLIMITED, why, have="not set")
