"""A way to restart that cannot work here is told when the program starts, and not in the night."""

from pathlib import Path

import pytest

from remediator.__main__ import main

FLEET = """
backends: [{name: gpu-a, url: "http://127.0.0.1:1", restart: {systemd: {unit: vllm.service}}}]
remediator: {mode: act, token_file: token, alertmanager: "http://127.0.0.1:1"}
"""


@pytest.mark.parametrize("flags", [[], ["--config.check"]], ids=["start", "check"])
def test_a_program_that_is_lacking_is_one_sentence_and_status_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
) -> None:
    (tmp_path / "token").write_text("secret\n")
    file = tmp_path / "fleet.yml"
    file.write_text(FLEET)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--config.file", str(file), *flags]) == 2
    assert capsys.readouterr().err == (
        f"{file}: backends[0].restart.systemd: needs the program systemctl: "
        "apt-get install systemd\n"
    )
    assert not (tmp_path / "remediator.db").exists()
