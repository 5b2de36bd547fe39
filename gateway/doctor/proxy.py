"""What holds for every proxy in front of the gateway: how long it waits, and how long it goes on.

A stream without tokens gets a comment every keep_alive seconds, so a proxy that gives up after more
than that never does. An answer that is not streamed has no comments in it: nothing comes until it
is whole, for up to first_byte_after seconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fleet.finding import Finding
from fleet.gateway import LONGER_SECONDS
from gateway.doctor.rule import Place, Rule
from gateway.doctor.times import Times


@dataclass(frozen=True)
class Wait:
    """A proxy's setting of ``seconds``; ``fix`` is the line to write, ``{seconds}`` in it."""

    place: Place
    setting: str
    seconds: float
    fix: str

    def finding(self, rule: Rule, said: tuple[str, str, str], write: float) -> Finding:
        """That it has to be something else: ``said`` is has to be, what, and because."""
        modal, need, because = said
        have = f"{self.seconds:g} s"
        why = f"{self.setting} is {have}, {modal} be {need}: {because}"
        fix = self.fix.format(seconds=f"{write:g}")
        bare = need.partition(" (")[0]
        return self.place.finding(rule, why, have=have, need=bare, fix=fix)


def idle(wait: Wait, times: Times, *, whole: bool = True) -> Iterator[Finding]:
    """Whether a proxy waits long enough for the next byte.

    ``whole`` is False for a timeout that does not run while an answer is waited for.
    """
    patience = times.first_byte_after
    if wait.seconds <= times.keep_alive:
        need = f"more than {times.keep_alive:g} s (keep_alive)"
        because = "a stream without tokens for so long is cut"
        write = max(patience, times.keep_alive) + 10
        yield wait.finding(Rule.IDLE_TIMEOUT, ("has to", need, because), write)
    elif whole and wait.seconds < patience:
        need = f"at least {patience:g} s (first_byte_after)"
        because = "an answer that is not streamed sends nothing until it is whole"
        yield wait.finding(Rule.IDLE_WHOLE, ("should", need, because), patience + 10)


def reuse(wait: Wait, times: Times) -> Iterator[Finding]:
    """Whether a proxy closes an idle connection before the gateway does."""
    if wait.seconds >= times.idle_after:
        need = f"less than {times.idle_after:g} s (first_byte_after + {LONGER_SECONDS:g} s)"
        because = (
            "the gateway closes a connection that was idle for so long, and a request that is just "
            "being sent on it is answered with 502"
        )
        write = times.idle_after - LONGER_SECONDS / 2
        yield wait.finding(Rule.IDLE_REUSE, ("has to", need, because), write)


def shutdown(wait: Wait, times: Times) -> Iterator[Finding]:
    """Whether a proxy that is reloaded or stopped lets streams go on for long enough."""
    if wait.seconds < times.window:
        need = f"at least {times.window:g} s (window)"
        because = "a reload of the proxy cuts the streams that are still in its old processes"
        yield wait.finding(Rule.PROXY_SHUTDOWN, ("has to", need, because), times.window)


def deregistration(wait: Wait, times: Times) -> Iterator[Finding]:
    """Whether a load balancer leaves a target's streams alone for as long as it drains."""
    if wait.seconds < times.window:
        need = f"at least {times.window:g} s (window)"
        because = "the load balancer closes what is still in flight at a gateway that drains"
        yield wait.finding(Rule.DEREGISTRATION, ("has to", need, because), times.window)


def retry(place: Place, setting: str, fix: str) -> Finding:
    """A proxy that sends a POST again that may be under way already."""
    why = (
        f"{setting} has the proxy send a POST again that may be under way: it is generated twice, "
        "and billed twice; the gateway itself retries before the first byte"
    )
    return place.finding(Rule.RETRY_POST, why, fix=fix)
