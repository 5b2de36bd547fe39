"""A systemd of one's own: the user's manager, with mounts and cgroups of its own."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from demo.parts import systemd

# systemd refuses where the system was not booted by it, and wants a part of the cgroups to itself.
# It hears nobody whose process number it cannot see: no namespace of those.
INSIDE = """
set -e
for tree in /sys/fs/cgroup/systemd /sys/fs/cgroup/unified /sys/fs/cgroup; do
    if [ -w $tree/cgroup.procs ]; then
        mkdir -p $tree/$NAME
        echo $$ > $tree/$NAME/cgroup.procs
    fi
done
exec "$UNSHARE" --mount --cgroup /bin/sh -ec '
    mount --make-rprivate /
    mount -t tmpfs tmpfs /run
    mkdir -p /run/systemd/system
    exec "$SYSTEMD" --user --unit=basic.target --log-target=console --show-status=false
'
"""
SECONDS = 30.0


class Manager:
    """``environment`` leads ``systemctl --user`` to it."""

    def __init__(self) -> None:
        assert os.geteuid() == 0, "run the tests as root: this systemd needs it"
        self._parts = systemd()
        self.folder = Path(tempfile.mkdtemp(prefix="systemd-"))
        runtime = self.folder / "runtime"
        runtime.mkdir(mode=0o700)
        self._units = self.folder / "config" / "systemd" / "user"
        self._units.mkdir(parents=True)
        self.environment = {
            "XDG_RUNTIME_DIR": str(runtime),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }
        inside = {
            "HOME": str(self.folder),
            "NAME": self.folder.name,
            "PATH": os.environ["PATH"],
            "SYSTEMD": self._parts.systemd,
            "UNSHARE": self._parts.unshare,
        }
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", INSIDE],
                env=self.environment | inside,
                stdout=log,
                stderr=log,
            )
        socket = runtime / "systemd" / "private"
        until = time.monotonic() + SECONDS
        while not socket.exists():
            ended = self._process.poll() is not None or time.monotonic() > until
            assert not ended, (self.folder / "log").read_text()
            time.sleep(0.02)

    def unit(self, name: str, *lines: str) -> None:
        """Write a service and have it read."""
        (self._units / name).write_text("\n".join(("[Service]", *lines, "")))
        self.control("daemon-reload")

    def mask(self, name: str) -> None:
        """Make it a unit that can never be started."""
        (self._units / name).symlink_to("/dev/null")
        self.control("daemon-reload")

    def control(self, *words: str) -> str:
        ended = subprocess.run(
            [self._parts.systemctl, "--user", *words],
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return ended.stdout + ended.stderr

    def value(self, unit: str, key: str) -> str:
        return self.control("show", "--value", "--property", key, unit).strip()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)
        for tree in ("systemd", "unified", ""):
            top = Path("/sys/fs/cgroup", tree, self.folder.name)
            if top.is_dir():
                _forget(top)
        shutil.rmtree(self.folder)


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
