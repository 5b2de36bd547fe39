"""Command lines that are run by the clock, or by something beside the server.

The incident that this project follows was one: a cron line that sent a chat request every five
minutes, took a test request that queued behind a batch job for a hang, and restarted a server that
was busy. A request queues behind everybody's work (vLLM serves `--max-num-seqs` at a time), so its
silence says nothing of the server.
"""

import re
from collections.abc import Iterator

from fleet.finding import Finding
from fleet.recognise import names_vllm
from remediator.lint.command import Deeds
from remediator.lint.rule import Place, Rule

MOST_SHOWN = 80
# A program that is named after watching vLLM. What is in it is not looked into.
WATCHER = re.compile(
    r"[\w./-]*(?:watch|restart|heal|health|check|monitor|probe|kill|guard|reboot)[\w.-]*",
    re.IGNORECASE,
)


def findings(place: Place, when: str, command: str, known: frozenset[str]) -> Iterator[Finding]:
    """What is wrong with a command line; ``when`` ends a sentence: "at '*/5 * * * *'"."""
    deeds = Deeds.of(command, known)
    restart, what = shown(deeds.restarts), deeds.asks or deeds.looks
    if deeds.restarts and deeds.checks:
        yield _of_a_check(place, when, deeds)
    elif deeds.restarts and deeds.asks:
        why = (
            f"asks the model ({what}) and runs `{restart}` {when}: a request that queues behind "
            "others gets a busy server restarted"
        )
        yield place.finding(Rule.SCHEDULED_WATCHDOG, why)
    elif deeds.restarts and deeds.looks:
        why = (
            f"looks at {what} and runs `{restart}` {when}: it answers late on a busy server, and "
            "in time on a frozen one"
        )
        yield place.finding(Rule.SCHEDULED_WATCHDOG, why)
    elif deeds.restarts:
        why = f"runs `{restart}` {when}, whether the server is healthy or not"
        yield place.finding(Rule.SCHEDULED_RESTART, why)
    elif deeds.asks:
        why = (
            f"asks the model ({what}) {when}: the request takes a slot, and queues behind "
            "everybody's, so that its silence proves nothing"
        )
        yield place.finding(Rule.SCHEDULED_REQUEST, why)
    elif watcher := _watcher(command):
        why = f"runs {watcher} {when}, which is not looked into here"
        yield place.finding(Rule.SCHEDULED_PROGRAM, why)


def _of_a_check(place: Place, when: str, deeds: Deeds) -> Finding:
    restart = shown(deeds.restarts)
    if deeds.unguarded:
        why = (
            f"runs `{restart}` {when} for every status of `vllm-exporter check` but 0: status 2 "
            "says that it cannot be judged"
        )
        fix = "restart for status 1 alone: `vllm-exporter check …; [ $? -ne 1 ] || …`"
        return place.finding(Rule.SCHEDULED_WATCHDOG, why, fix)
    why = (
        f"runs `{restart}` {when} if `vllm-exporter check` proves the server stuck: without the "
        "remediator's limits, evidence and silences"
    )
    return place.finding(Rule.SCHEDULED_CHECK, why)


def _watcher(command: str) -> str:
    """The first program of a command line that is named after watching vLLM."""
    for word in command.split():
        if "=" in word or word.startswith(("-", ">")):
            continue
        name = word.strip("\"'();").rpartition("/")[2]
        if names_vllm(name) and WATCHER.fullmatch(name):
            return word.strip("\"'();")
    return ""


def shown(command: str) -> str:
    """A command as a sentence may show it: on one line, short, without what may be secret."""
    text = re.sub(r"//[^/\s]*@", "//***@", " ".join(command.split()))
    text = re.sub(r"(?<=\s)(-u|--user)([ =]*)\S+", r"\1\2***", text)
    text = re.sub(r"(?i)(bearer|basic|token|key|password|secret)([ =:]+)\S+", r"\1\2***", text)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"
