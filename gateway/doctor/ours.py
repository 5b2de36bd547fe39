"""Which programs are ours: the gateway, and the vLLM servers behind it; told by image and command.

A container whose image does not tell (a variable, built in place, or lifeguard's image, which holds
three programs) goes by its name where it has no command.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fleet.recognise import SERVES, UNKNOWN_IMAGE, Certainty, Described

GATEWAY = re.compile(r"\bvllm[-_]gateway\b|(?<!\S)-m\s+gateway(?:\.__main__)?(?!\S)")
# What the same program does otherwise, and what other programs say of it.
OTHERWISE = re.compile(
    r"\bvllm[-_]gateway\s+(?:doctor|drain|undrain|inflight|ledger)\b|\bvllm-(?:exporter|remediator)\b"
)
NAMED = re.compile(r"\bvllm[-_]gateway\b|\bgateway\b.*\bvllm\b|\bvllm\b.*\bgateway\b", re.DOTALL)
LIFEGUARD = re.compile(r"\bvllm-lifeguard\b")
SHELL = re.compile(r"(?:.*/)?(?:ba|da)?sh")
MOST_CHARACTERS = 20_000
SHUTDOWN = re.compile(r"--shutdown[-_]timeout(?:\s+|=)(\S+)")
FROM_ELSEWHERE = re.compile(r"\$|\{\{|--config\b")


class Program(StrEnum):
    """What we end without a cut."""

    GATEWAY = "gateway"
    VLLM = "vLLM"


def program(described: Described, labels: str = "") -> Program | None:
    """What a container, service or unit runs, if it is ours."""
    command = described.command[:MOST_CHARACTERS]
    if OTHERWISE.search(command):
        return None
    if GATEWAY.search(f"{described.image} {command}"):
        return Program.GATEWAY
    untold = UNKNOWN_IMAGE.search(described.image) or LIFEGUARD.search(described.image)
    if untold and not command and NAMED.search(f"{described.name} {labels}"):
        return Program.GATEWAY
    return Program.VLLM if described.certainty is not Certainty.NO else None


def subject(found: Program, described: Described) -> str:
    """Beginning of a sentence about it; of a server it says where it is not sure."""
    return f"{described.name}: " if found is Program.GATEWAY else described.subject


class Absent(StrEnum):
    """Why there is no number."""

    NOT_SET = "not set"
    NOT_SEEN = "not seen"


@dataclass(frozen=True)
class Shutdown:
    """What a command line says about vLLM's --shutdown-timeout, in seconds.

    0, the default, cuts every open stream at SIGTERM; more lets them finish, and refuses new
    requests with 500 (measured on vLLM 0.32).
    """

    seconds: float | Absent

    @classmethod
    def of(cls, described: Described) -> "Shutdown":
        """Not seen where it may stand in a variable, a configuration file or a script."""
        command = described.command[:MOST_CHARACTERS]
        said = SHUTDOWN.findall(command)
        if said:
            number = said[-1].strip("\"'")
            if re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,3})?", number):
                return cls(float(number))
            return cls(Absent.NOT_SEEN)
        shown = SERVES.search(command) or "vllm" in described.image.lower()
        if FROM_ELSEWHERE.search(command) or not shown:
            return cls(Absent.NOT_SEEN)
        return cls(Absent.NOT_SET)


def words(text: str) -> list[str]:
    """A command line's words as a shell has them; those between blanks where it is none."""
    try:
        return shlex.split(text[:MOST_CHARACTERS])
    except ValueError:
        return text[:MOST_CHARACTERS].split()


def swallowing_shell(command: Sequence[str]) -> str:
    """The shell that gets SIGTERM in place of the program and does not pass it on; empty for none.

    A shell replaces itself by the program where the script says ``exec``; bash does so for its last
    command, too, unless that is piped, dash never (tried: bash 5.2, dash 0.5.12). The first process
    of a container ignores SIGTERM unless it handles it (pid_namespaces(7)).
    """
    for at, word in enumerate(command[:4]):
        if not SHELL.fullmatch(word):
            continue
        flags = command[at + 1] if at + 1 < len(command) else ""
        script = command[at + 2] if at + 2 < len(command) else ""
        if re.fullmatch(r"-[a-z]*c", flags) and _swallows(word, script.strip()):
            return word
    return ""


def _swallows(shell: str, script: str) -> bool:
    found = GATEWAY.search(script) or SERVES.search(script)
    if found is None or re.search(r"\b(?:exec|trap)\b", script):
        return False
    joined = script.replace("\\\n", " ")
    parts = [part for part in re.split(r"&&|\|\||[;|&\n]", joined) if part.strip()]
    last = not joined.endswith("&") and (GATEWAY.search(parts[-1]) or SERVES.search(parts[-1]))
    piped = re.search(r"(?<!\|)\|(?!\|)", joined) is not None
    return not (shell.endswith("bash") and last and not piped)
