"""A container engine of one's own, with its storage in a folder, serving Docker's API."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import time
from contextlib import suppress
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

    remove: tuple[str, ...] = ("rm", "--force")

    def __init__(self) -> None:
        assert os.geteuid() == 0, "run the tests as root: these containers need it"
        self.folder = Path(tempfile.mkdtemp(prefix="engine-"))
        self.socket = self.folder / "api.sock"
        self.host = f"unix://{self.socket}"
        with (self.folder / "log").open("wb") as log:
            self._service = subprocess.Popen(self._serving(), stdout=log, stderr=log)
        until = time.monotonic() + 60
        while not self.socket.exists():
            ended = self._service.poll() is not None or time.monotonic() > until
            assert not ended, (self.folder / "log").read_text()
            time.sleep(0.02)
        self._said("import", str(self._image()), IMAGE)

    def _serving(self) -> list[str]:
        """The words that start it."""
        raise NotImplementedError

    def _client(self) -> list[str]:
        """The first words of a command to it."""
        raise NotImplementedError

    def _image(self) -> Path:
        file = self.folder / "image.tar"
        with tarfile.open(file, "w") as tar:
            tar.add(podman().busybox, "bin/busybox")
            for applet in APPLETS:
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        return file

    def _said(self, *words: str) -> str:
        ended = subprocess.run(
            [*self._client(), *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def run(self, name: str, script: str) -> None:
        """Start a container anew and wait for its first word, if the script has one."""
        if name in self._said("ps", "--all", "--format", "{{.Names}}").split():
            self._said(*self.remove, name)
        words = ("--detach", "--network", "host", *LIMITS, "--name", name, IMAGE)
        self._said("run", *words, "/bin/sh", "-c", script)
        until = time.monotonic() + 30
        while "echo up" in script and "up" not in self.output(name):
            assert time.monotonic() < until, f"{name} does not start"
            time.sleep(0.05)

    def pid(self, name: str) -> int:
        return int(json.loads(self._said("inspect", name))[0]["State"]["Pid"])

    def output(self, name: str) -> str:
        return self._said("logs", name)

    def stop(self) -> None:
        names = self._said("ps", "--all", "--format", "{{.Names}}").split()
        self._said(*self.remove, *names)
        self._service.terminate()
        self._service.wait(60)
        until = time.monotonic() + 60
        while self._is_used():  # Podman tidies up after each container in a process of its own
            assert time.monotonic() < until, f"{self.folder} is still in use"
            time.sleep(0.05)
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for mount in mounts:  # Docker leaves its network namespace
            if Path(mount).is_relative_to(self.folder):
                subprocess.run(["umount", mount], check=True)
        shutil.rmtree(self.folder)

    def _is_used(self) -> bool:
        """Whether a process has the folder in its words."""
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(FileNotFoundError, ProcessLookupError):
                if str(self.folder).encode() in file.read_bytes():
                    return True
        return False


class Podman(Engine):
    """Podman, whose service does the same as its command, and whose force is patient."""

    remove = ("rm", "--force", "--time", "0")

    def _client(self) -> list[str]:
        parts = podman()
        return [
            parts.podman,
            *("--root", str(self.folder / "root")),
            *("--runroot", str(self.folder / "run")),
            *("--tmpdir", str(self.folder / "tmp")),
            *("--storage-driver", "vfs", "--cgroup-manager", "cgroupfs"),
            *("--events-backend", "file", "--runtime", parts.runc),
        ]

    def _serving(self) -> list[str]:
        return [*self._client(), "system", "service", "--time", "0", self.host]


class Docker(Engine):
    """Docker, which leaves the machine's network as it is."""

    def _client(self) -> list[str]:
        return ["docker", "--host", self.host]

    def _serving(self) -> list[str]:
        return [
            "dockerd",
            *("--host", self.host, "--pidfile", str(self.folder / "pid")),
            *("--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec")),
            *("--storage-driver", "vfs", "--exec-opt", "native.cgroupdriver=cgroupfs"),
            *("--bridge=none", "--iptables=false", "--ip6tables=false"),
            *("--ip-forward=false", "--ip-masq=false"),
        ]


# Docker's package starts a daemon for the whole machine: it is used where it is, and not installed.
ENGINES: list[type[Engine]] = [Podman, *([Docker] if shutil.which("dockerd") else [])]
