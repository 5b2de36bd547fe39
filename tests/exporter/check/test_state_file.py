"""What spans two calls: all of it comes back, and nothing that is not to be trusted does."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.check.state_file import Remembered, StateFile, StateFileError
from fleet.answer import Answer, Result
from fleet.history import asking, heard
from tests.fleet.watching import REFUSED, TIMEOUT, backend, recorded, watch

BACKEND = backend()
NOW = 5000.0


def state_file(folder: Path, boot: str = "this") -> StateFile:
    return StateFile(folder / "state.json", boot=boot)


def every_kind() -> list[Remembered]:
    """Histories of every kind that the recordings give, also in the middle of a request."""
    found = []
    for name in (
        "busy-decode",
        "dp2-one-engine-frozen",
        "behind-least-conn-proxy",
        "multiprocess-busy",
        "after-restart",
        "frozen-while-idle",
    ):
        for step in watch([*recorded(name), TIMEOUT, REFUSED, *recorded(name)]):
            history = step.history
            for engine in history.engines:
                history = asking(history, engine, 1500.0)
                history = heard(history, engine, Answer(Result.ANSWERED, 1.0, "said"), 1501.0)
                history = asking(history, engine, 1600.0)
            found.append(Remembered(history, 1, 1000.0))
    return found


@pytest.mark.parametrize("remembered", every_kind())
def test_all_of_a_history_comes_back(remembered: Remembered, tmp_path: Path) -> None:
    state_file(tmp_path).save({"gpu-a": remembered}, (BACKEND,))
    assert state_file(tmp_path).load((BACKEND,), NOW) == {"gpu-a": remembered}


ONE = every_kind()[3]


def test_another_boot_server_or_patience_begins_anew(tmp_path: Path) -> None:
    state_file(tmp_path).save({"gpu-a": ONE}, (BACKEND,))
    assert state_file(tmp_path, boot="another").load((BACKEND,), NOW) == {}
    for other in (
        replace(BACKEND, url="http://other:8000"),
        replace(BACKEND, wait=61.0),
        replace(BACKEND, warm_up=1.0),
    ):
        assert state_file(tmp_path).load((other,), NOW) == {}


def test_what_lies_in_the_future_is_from_another_clock(tmp_path: Path) -> None:
    state_file(tmp_path).save({"gpu-a": ONE}, (BACKEND,))
    assert state_file(tmp_path).load((BACKEND,), ONE.since - 1) == {}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"version": 1}', '{"version": "0.1.0", "boot": "this"}']
)
def test_a_file_that_is_none_begins_anew(text: str, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(text)
    assert state_file(tmp_path).load((BACKEND,), NOW) == {}


@pytest.mark.parametrize("key", ["history", "since", "dead_looks"])
def test_a_file_of_another_shape_begins_anew(key: str, tmp_path: Path) -> None:
    state_file(tmp_path).save({"gpu-a": ONE}, (BACKEND,))
    file = tmp_path / "state.json"
    tree = json.loads(file.read_text())
    next(iter(tree["backends"].values()))[key] = {"x": []}
    file.write_text(json.dumps(tree))
    assert state_file(tmp_path).load((BACKEND,), NOW) == {}


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    state = state_file(tmp_path / "missing")
    sentence = "state.json: cannot be used: No such file or directory"
    with pytest.raises(StateFileError, match=sentence), state.held():
        pass
