"""The servers' API keys: read off the loop, said by nobody."""

import asyncio
import os
from pathlib import Path

import pytest

from fleet.backend import Backend, Kind
from gateway.backend_keys import BackendKeys
from tests.gateway.hearing import CHAT, question
from tests.gateway.hostile import Hostile, answer
from tests.gateway.running import Gateway, eventually

SOON = 20.0


def backend(file: Path | None, name: str = "gpu-a") -> Backend:
    return Backend(name, "http://a", Kind.VLLM, 90.0, 600.0, api_key_file=file)


def test_a_key_is_as_old_as_the_last_look_and_one_gone_bad_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "key"
    one, other = backend(file), backend(file, "gpu-b")

    async def run() -> None:
        keys = BackendKeys()
        await keys.read(backend(None), SOON)
        assert keys.of(backend(None)) is None
        for key in ("sk-1", "sk-2"):
            file.write_text(key)
            await asyncio.gather(keys.read(one, SOON), keys.read(other, SOON))
            assert keys.of(one) == keys.of(other) == key
        file.write_text("sk-3\nsk-4")
        for _ in range(3):
            await keys.read(one, SOON)
        assert keys.of(one) == "sk-2"

    asyncio.run(run())
    (record,) = caplog.records
    assert "backend=gpu-a" in record.getMessage()
    assert "sk-" not in caplog.text


def test_a_file_that_cannot_be_read_in_time_holds_nobody(tmp_path: Path) -> None:
    file = tmp_path / "key"
    os.mkfifo(file)  # whoever reads it waits for a writer

    async def run() -> None:
        keys = BackendKeys()
        for _ in range(3):
            await keys.read(backend(file), 0.01)
            assert keys.of(backend(file)) is None
        await asyncio.to_thread(file.write_text, "sk-1")  # for the one that reads
        await keys.read(backend(file), SOON)
        assert keys.of(backend(file)) == "sk-1"

    asyncio.run(asyncio.wait_for(run(), SOON))


def test_a_changed_key_is_sent_soon_and_never_logged(tmp_path: Path) -> None:
    keys = ("Bearer sk-first", "Bearer sk-second")
    file = tmp_path / "key"
    file.write_text("sk-first")
    with (
        Hostile(lambda connection, _: answer(connection, 200, b"{}")) as hostile,
        Gateway(tmp_path, {"gpu-a": hostile.url}, api_key_file="key") as gateway,
    ):

        def sent(path: str) -> str:
            gateway.post(path, question(CHAT, 5), authorization="Bearer client")
            return hostile.got[-1].headers.get("authorization", "")

        paths = (CHAT, "/v1/embeddings", "/any")
        assert [sent(path) for path in paths] == [keys[0]] * 3
        file.write_text("sk-second")
        eventually(lambda: sent("/any") == keys[1], "it is read again")
        assert [sent(path) for path in paths] == [keys[1]] * 3
        assert "sk-" not in gateway.said
