"""A systemd of one's own, with mounts and cgroups of its own."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from demo.parts import systemd

# systemd refuses where the system was not booted by it, and wants a part of the cgroups to itself.
CGROUPS = """
set -e
for tree in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
    if [ -w $tree/cgroup.procs ]; then
        mkdir -p $tree/$NAME
        echo $$ > $tree/$NAME/cgroup.procs
    fi
done
"""
# The user's hears nobody whose process number it cannot see: no namespace of those.
USERS = """
exec "$UNSHARE" --mount --cgroup /bin/sh -ec '
    mount --make-rprivate /
    mount -t tmpfs tmpfs /run
    mkdir -p /run/systemd/system
    exec "$SYSTEMD" --user --unit=basic.target --log-target=console --show-status=false
'
"""
# The system's is the first of its processes, may change nothing of the kernel, and knows one user
# and the rules of one folder.
SYSTEMS = """
exec "$UNSHARE" --mount --cgroup --uts --ipc --pid --fork --mount-proc --kill-child /bin/sh -ec '
    mount --make-rprivate /
    mount -t tmpfs tmpfs /run
    mkdir -p /run/systemd/system /run/lock
    mount --bind /proc/sys /proc/sys
    mount -o remount,bind,ro /proc/sys
    mount --bind "$FOLDER/passwd" /etc/passwd
    mount --bind "$FOLDER/rules" /etc/polkit-1/rules.d
    cp "$FOLDER"/units/* /run/systemd/system
    export container=lifeguard
    exec "$SYSTEMD" --system --unit=here.target --log-target=console --show-status=false
'
"""
UNITS = {
    "here.target": "[Unit]\nDefaultDependencies=no\nWants=dbus.socket\n",
    "dbus.socket": "[Unit]\nDefaultDependencies=no\n"
    "[Socket]\nListenStream=/run/dbus/system_bus_socket\n",
    "dbus.service": "[Unit]\nDefaultDependencies=no\nRequires=dbus.socket\n"
    "[Service]\nType=notify\n"
    "ExecStart={dbus} --system --address=systemd: --nofork --nopidfile --systemd-activation\n",
    "polkit.service": "[Unit]\nDefaultDependencies=no\n"
    "[Service]\nType=dbus\nBusName=org.freedesktop.PolicyKit1\nExecStart={polkit} --no-debug\n",
    "vllm@.service": "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep 600\n",
    "other.service": "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep 600\n",
}
USER, USER_ID = "lifeguard", 64999
SECONDS = 30.0


class _Systemd:
    """``control`` speaks to it as root; ``ends_by`` is the signal that ends all of it."""

    ends_by = signal.SIGTERM

    def __init__(self) -> None:
        assert os.geteuid() == 0, "run the tests as root: this systemd needs it"
        self.parts = systemd()
        self.folder = Path(tempfile.mkdtemp(prefix="systemd-"))

    def _start(self, inside: str, env: Mapping[str, str], is_up: Callable[[], bool]) -> None:
        own = {
            "HOME": str(self.folder),
            "NAME": self.folder.name,
            "FOLDER": str(self.folder),
            "PATH": os.environ["PATH"],
            "SYSTEMD": self.parts.systemd,
            "UNSHARE": self.parts.unshare,
        }
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", CGROUPS + inside], env={**own, **env}, stdout=log, stderr=log
            )
        until = time.monotonic() + SECONDS
        while not is_up():
            if self.process.poll() is not None or time.monotonic() > until:
                log_text = (self.folder / "log").read_text()
                self.stop()
                raise AssertionError(log_text)
            time.sleep(0.02)

    def value(self, unit: str, key: str) -> str:
        return self.control("show", "--value", "--property", key, unit).strip()

    def control(self, *words: str) -> str:
        raise NotImplementedError

    def stop(self) -> None:
        self.process.send_signal(self.ends_by)
        self.process.wait(SECONDS)
        for tree in ("systemd", "unified", ""):
            top = Path("/sys/fs/cgroup", tree, self.folder.name)
            if top.is_dir():
                _forget(top)
        shutil.rmtree(self.folder)


class Manager(_Systemd):
    """The user's; ``environment`` leads ``systemctl --user`` to it."""

    def __init__(self) -> None:
        super().__init__()
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700)
        self._units = self.folder / "config" / "systemd" / "user"
        self._units.mkdir(parents=True)
        self.environment = {
            "XDG_RUNTIME_DIR": str(runtime),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }
        self._start(USERS, self.environment, (runtime / "systemd" / "private").exists)

    def unit(self, name: str, *lines: str) -> None:
        """Write a service and have it read."""
        (self._units / name).write_text("\n".join(("[Service]", *lines, "")))
        self.control("daemon-reload")

    def mask(self, name: str) -> None:
        """Make it a unit that can never be started."""
        (self._units / name).symlink_to("/dev/null")
        self.control("daemon-reload")

    def control(self, *words: str) -> str:
        command = [self.parts.systemctl, "--user", *words]
        return _said(command, os.environ | self.environment)


class System(_Systemd):
    """The system's, with D-Bus and polkit, which has the rules of one file.

    In ``bin`` is a systemctl that speaks to it as the user ``lifeguard``, who is not root.
    """

    ends_by = signal.SIGKILL  # its namespace ends with it, and all that is in there

    def __init__(self, rules: Path) -> None:
        super().__init__()
        self.folder.chmod(0o755)
        for name in ("units", "rules", "bin"):
            (self.folder / name).mkdir()
        shutil.copy(rules, self.folder / "rules")
        passwd = Path("/etc/passwd").read_text()
        user = f"{USER}:x:{USER_ID}:{USER_ID}::/nonexistent:/usr/sbin/nologin\n"
        (self.folder / "passwd").write_text(passwd + user)
        for name, text in UNITS.items():
            content = text.format(dbus=self.parts.dbus, polkit=self.parts.polkit)
            (self.folder / "units" / name).write_text(content)
        self._start(SYSTEMS, {}, self._is_up)
        as_user = (self.parts.setpriv, f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups")
        words = " ".join((*self._into(), *as_user, self.parts.systemctl))
        program = self.folder / "bin" / "systemctl"
        program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        program.chmod(0o755)

    def _is_up(self) -> bool:
        # The first process of the namespace is the only child of the one that made it.
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        self._first = children.strip()
        return bool(self._first) and "active" in self.control("is-active", "here.target").split()

    def _into(self) -> tuple[str, ...]:
        return (self.parts.nsenter, "-t", self._first, "-m", "-p", "-C")

    def control(self, *words: str) -> str:
        return _said([*self._into(), self.parts.systemctl, *words], os.environ)


def _said(command: list[str], env: Mapping[str, str]) -> str:
    ended = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    return ended.stdout + ended.stderr


def _forget(top: Path) -> None:
    """Remove a cgroup and those below, once what ran in them is reaped."""
    until = time.monotonic() + SECONDS
    for folder, _, _ in os.walk(top, topdown=False):
        while True:
            try:
                Path(folder).rmdir()
                break
            except OSError:
                assert time.monotonic() < until, f"{folder} stays"
                time.sleep(0.02)
