from pathlib import Path

import pytest

from remediator import evidence
from remediator.evidence import Evidence
from tests.remediator.making import at, backend
from tests.remediator.tiny_vllm import TinyVLLM


def test_the_pages_are_saved_beside_the_database(tmp_path: Path) -> None:
    with TinyVLLM(health=503) as server:
        where = Evidence(tmp_path).save(backend(url=server.url), 7, at(0))
    folder = tmp_path / "evidence" / "20260301T120000Z-gpu-a-7"
    assert where == str(folder)
    assert "vllm:num_requests_running" in (folder / "metrics.prom").read_text()
    assert (folder / "health.txt").read_text() == "http_error: /health answered HTTP 503\n"


def test_without_a_folder_nothing_is_saved() -> None:
    assert Evidence(None).save(backend(), 7, at(0)) is None


def test_a_server_that_is_gone_is_evidence_too(tmp_path: Path) -> None:
    where = Evidence(tmp_path).save(backend(), 7, at(0))
    assert where is not None
    assert (Path(where) / "metrics.prom").read_text().startswith("refused: ")


def test_a_page_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "MOST_CHARACTERS", 10)
    with TinyVLLM() as server:
        where = Evidence(tmp_path).save(backend(url=server.url), 7, at(0))
    assert where is not None
    assert len((Path(where) / "metrics.prom").read_text()) == 10


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "MOST_KEPT", 2)
    for number in range(4):
        Evidence(tmp_path).save(backend(), number, at(number))
    kept = sorted(path.name for path in (tmp_path / "evidence").iterdir())
    assert [name[-1] for name in kept] == ["2", "3"]


def test_a_folder_that_cannot_be_written_is_in_nobodys_way(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "evidence").write_text("a file where a folder ought to be")
    assert Evidence(tmp_path).save(backend(), 7, at(0)) is None
    assert "event=no_evidence backend=gpu-a" in caplog.text
