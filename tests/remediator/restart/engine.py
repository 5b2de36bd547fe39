"""A container engine of one's own: Podman with its storage in a folder, serving Docker's API."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

from demo.parts import podman

IMAGE = "lifeguard/busybox"
APPLETS = ("sh", "sleep", "echo", "cat")
# Names the user's limits, which an engine that may not raise them would else fail to set.
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
HEARS = 'trap "echo heard; exit 0" TERM; echo up; while :; do sleep 0.1; done'
DEAF = 'trap "" TERM; echo up; while :; do sleep 0.1; done'
ENDS = "exit 3"


class Engine:
    """Starts containers from one busybox; ``host`` is where it serves Docker's API."""

    def __init__(self) -> None:
        assert os.geteuid() == 0, "run the tests as root: these containers need it"
        self._parts = podman()
        self.folder = Path(tempfile.mkdtemp(prefix="engine-"))
        self.socket = self.folder / "api.sock"
        self.host = f"unix://{self.socket}"
        self._podman("import", str(self._image()), IMAGE)
        self._service = subprocess.Popen(
            [*self._words(), "system", "service", "--time", "0", self.host],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + 30
        while not self.socket.exists():
            assert time.monotonic() < until, "Podman serves no API"
            time.sleep(0.02)

    def _image(self) -> Path:
        file = self.folder / "image.tar"
        with tarfile.open(file, "w") as tar:
            tar.add(self._parts.busybox, "bin/busybox")
            for applet in APPLETS:
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        return file

    def _words(self) -> list[str]:
        return [
            self._parts.podman,
            *("--root", str(self.folder / "root")),
            *("--runroot", str(self.folder / "run")),
            *("--tmpdir", str(self.folder / "tmp")),
            *("--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"),
            *("--events-backend", "file", "--runtime", self._parts.runc),
        ]

    def _podman(self, *words: str) -> str:
        ended = subprocess.run(
            [*self._words(), *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def run(self, name: str, script: str) -> None:
        """Start a container anew and wait for its first word, if the script has one."""
        self._podman("rm", "--force", "--time", "0", "--ignore", name)
        words = ("--detach", "--network", "host", *LIMITS, "--name", name, IMAGE)
        self._podman("run", *words, "/bin/sh", "-c", script)
        until = time.monotonic() + 30
        while "echo up" in script and "up" not in self.output(name):
            assert time.monotonic() < until, f"{name} does not start"
            time.sleep(0.05)

    def pid(self, name: str) -> int:
        return int(json.loads(self._podman("inspect", name))[0]["State"]["Pid"])

    def output(self, name: str) -> str:
        return self._podman("logs", name)

    def stop(self) -> None:
        self._podman("rm", "--force", "--time", "0", "--all")
        self._service.terminate()
        self._service.wait(30)
        shutil.rmtree(self.folder)
