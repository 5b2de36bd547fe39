"""Restarts a backend's container by Docker's Engine API, which Podman serves, too.

The engine sends SIGTERM to the container's first process, SIGKILL to all of it after the grace, and
then starts it anew. It goes on with that also when we no longer wait for its reply.
"""

import socket
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from math import ceil
from typing import Any

from docker import APIClient
from docker.errors import APIError, DockerException, NotFound
from requests import RequestException, Timeout

from fleet.backend import Backend
from fleet.way import Docker as Way
from remediator.restart import Outcome
from remediator.restart.deadline import Deadline, bounded
from remediator.restart.sentence import one_line, sentence, system_error

SETTLE_SECONDS = 1.0
LOOK_SECONDS = 0.1


class Docker:
    """Restarts the container named in ``restart.docker``."""

    def restart(self, backend: Backend) -> Outcome:
        """Stop it with SIGTERM, kill it after the grace, start it; all in ``restart.timeout``."""
        if backend.restart is None or not isinstance(backend.restart.way, Way):
            return Outcome(ok=False, why=f"{backend.name} has no restart.docker")
        act = _Act(backend.restart.way)
        return bounded(backend.restart.timeout, act.outcome)


@dataclass
class _Act:
    """One restart; ``asked`` tells whether the engine may be at it."""

    way: Way
    asked: bool = False

    def outcome(self, deadline: Deadline) -> Outcome:
        try:
            return self._restart(deadline)
        except NotFound:
            why = f"there is no container {self.way.container!r} at {self.way.host}"
        except APIError as error:
            why = f"the engine could not restart {self.way.container!r}: {_said(error)}"
        except (RequestException, DockerException, OSError) as error:
            why = self._unheard(error, deadline)
        return Outcome(ok=False, why=why)

    def _restart(self, deadline: Deadline) -> Outcome:
        name = self.way.container
        _reach(self.way.host, deadline)
        client = APIClient(base_url=self.way.host, version="auto", timeout=ceil(deadline.left()))
        with closing(client):
            client.timeout = ceil(deadline.left())
            before = client.inspect_container(name)
            grace = ceil(self.way.grace)
            # The package waits for its timeout and the grace together.
            client.timeout = ceil(deadline.left()) - grace
            self.asked = True
            client.restart(before["Id"], timeout=grace)
            client.timeout = ceil(deadline.left())
            after = _settled(client, before["Id"], deadline)
        output = f"{before['Id'][:12]}\nbefore: {_seen(before)}\nafter: {_seen(after)}\n"
        if not after["State"]["Running"]:
            status = after["State"]["ExitCode"]
            why = f"the container {name!r} was started and ended at once with status {status}"
            return Outcome(ok=False, why=why, output=output)
        return Outcome(ok=True, why=f"the container {name!r} was restarted", output=output)

    def _unheard(self, error: Exception, deadline: Deadline) -> str:
        """Why no reply came, and what that means."""
        asked = "it may still restart the container" if self.asked else "it was not asked for more"
        # A timeout while the version is asked for is named in the words of the error alone.
        if isinstance(error, (Timeout, TimeoutError)) or isinstance(error.__cause__, Timeout):
            return (
                f"the engine at {self.way.host} did not answer within {deadline.seconds:g} s; "
                f"{asked}"
            )
        if isinstance(system_error(error), PermissionError):
            return f"we may not use the engine at {self.way.host}: {sentence(error)}"
        if self.asked:
            return f"the engine at {self.way.host} was lost: {sentence(error)}; {asked}"
        return f"no engine answers at {self.way.host}: {sentence(error)}"


def _settled(client: APIClient, container: str, deadline: Deadline) -> Mapping[str, Any]:
    """The container a moment after it was started: one that cannot run has ended by then."""
    until = time.monotonic() + min(SETTLE_SECONDS, deadline.left() / 2)
    while True:
        found: Mapping[str, Any] = client.inspect_container(container)
        if not found["State"]["Running"] or time.monotonic() >= until:
            return found
        time.sleep(LOOK_SECONDS)


def _reach(host: str, deadline: Deadline) -> None:
    """Raises OSError where nobody listens on a unix socket: the package leaks it then."""
    scheme, _, path = host.partition("://")
    if scheme == "unix":
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(deadline.left())
            sock.connect(path)


def _said(error: APIError) -> str:
    return one_line(str(error.explanation or error))


def _seen(container: Mapping[str, Any]) -> str:
    state = container["State"]
    return f"{state['Status']}, pid {state['Pid']}, started {state['StartedAt']}"
