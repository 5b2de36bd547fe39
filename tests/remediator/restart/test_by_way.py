"""Which driver restarts a backend, and what is said where one cannot."""

import subprocess
import sys
from pathlib import Path

import pytest

from fleet.backend import Restart
from fleet.way import Command, Docker, Kubernetes, Systemd, Way
from remediator.restart.by_way import ByWay, lacking
from tests.remediator.making import backend

DOCKER = Docker("gpu-a", "unix:///no/such.sock", 1.0)
PIP = "pip install 'vllm-lifeguard"
KUBERNETES = Kubernetes("ml", pod="gpu-a-0", kubeconfig=Path("/no/such/file"))


@pytest.mark.parametrize(
    ("way", "word"),
    [
        (Command(("/no/such/program",)), "'/no/such/program' cannot be run"),
        (Systemd("nobody.service", user=True), "the user's systemd"),
        (DOCKER, "no engine answers at unix:///no/such.sock"),
        (KUBERNETES, "no cluster is known by /no/such/file"),
    ],
)
def test_each_way_has_its_driver(way: Way, word: str) -> None:
    outcome = ByWay().restart(backend(restart=Restart(way, 10.0)))
    assert not outcome.ok
    assert word in outcome.why


def test_one_driver_serves_all_its_backends() -> None:
    by_way = ByWay()
    for _ in range(2):
        assert by_way.restart(backend(restart=Restart(Command(("true",)), 10.0))).ok


def test_a_backend_that_is_not_restarted() -> None:
    assert not ByWay().restart(backend(restart=None)).ok


def test_what_is_lacking_is_said_with_its_place_and_its_cure() -> None:
    backends = [
        backend("a", restart=Restart(Command(("true",)), 10.0)),
        backend("b", restart=None),
        backend("c", restart=Restart(Systemd("c.service"), 10.0)),
        backend("d", restart=Restart(DOCKER, 10.0)),
        backend("e", restart=Restart(KUBERNETES, 10.0)),
    ]
    assert lacking(backends, lambda _: False, lambda _: False) == [
        "backends[2].restart.systemd: needs the program systemctl: apt-get install systemd",
        f"backends[3].restart.docker: needs the package docker: {PIP}[docker]'",
        f"backends[4].restart.kubernetes: needs the package kubernetes: {PIP}[kubernetes]'",
    ]
    assert lacking(backends) == []


def test_a_folder_of_that_name_is_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docker").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert len(lacking([backend(restart=Restart(DOCKER, 10.0))])) == 1


WITHOUT = """
import sys
sys.modules["docker"] = sys.modules["kubernetes"] = None
from fleet.backend import Restart
from tests.remediator.restart.test_by_way import DOCKER, ByWay, backend
print(ByWay().restart(backend(restart=Restart(DOCKER, 10.0))).why)
"""


def test_a_package_that_is_not_there_is_an_outcome_and_hinders_no_other_way() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.startswith("gpu-a cannot be restarted by docker: ")
