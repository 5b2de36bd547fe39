"""The built wheel works on its own: in a clean environment, away from the checkout."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = ("vllm-exporter", "vllm-remediator", "vllm-gateway")
VALID = """
backends: [{name: gpu-a, url: "http://127.0.0.1:8000", restart: {command: ["true"]}}]
remediator: {mode: shadow, token_file: token, alertmanager: "http://127.0.0.1:9093"}
gateway: {admin_token_file: token}
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(ROOT, sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    run(folder, *pip, "--require-hashes", "-r", str(ROOT / "requirements.lock"))
    run(folder, *pip, "--no-deps", str(wheel))
    return folder


def run(cwd: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(argv, cwd=cwd, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_wheel_holds_the_programs_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "fleet",
        "exporter",
        "remediator",
        "gateway",
    }
    templates = {
        str(file.relative_to(ROOT))
        for program in ("exporter", "remediator")
        for file in (ROOT / program / "templates").iterdir()
    }
    assert "exporter/templates/script.js.html" in templates
    assert templates <= set(names)


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_runs_outside_the_checkout(
    script: str, environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "fleet.yml").write_text(VALID)
    (tmp_path / "token").write_text("a-token-of-some-length\n")
    program = str(environment / "bin" / script)
    assert script in run(tmp_path, program, "--version").stdout
    run(tmp_path, program, "--config.file", "fleet.yml", "--config.check")
