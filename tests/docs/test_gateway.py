"""The page of the gateway: a newcomer who copies its blocks has something that is valid."""

import re
from pathlib import Path

import pytest
import yaml

from fleet.settings import load
from gateway.__main__ import COMMANDS, main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gateway.md").read_text()
STEPS = PAGE.split("## In front of two servers, in five minutes")[1].split("\n## ")[0]
EXAMPLE = STEPS.split("$ cat > fleet.yml\n")[1].split("$ ")[0]


def test_the_first_fleet_yml_is_what_the_page_says_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fleet.yml").write_text(EXAMPLE)
    Path("gateway.token").write_text("token")
    assert main(["--config.file", "fleet.yml", "--config.check"]) == 0
    assert capsys.readouterr().out == STEPS.split("--config.check\n")[1].split("```")[0]


def test_the_settings_with_the_other_programs_are_valid(tmp_path: Path) -> None:
    block = PAGE.split("## With the other programs\n")[1].split("```yaml\n")[1].split("```")[0]
    tree = yaml.safe_load(block)
    tree["remediator"] |= {"mode": "shadow", "token_file": "t", "alertmanager": "http://am:9093"}
    (tmp_path / "fleet.yml").write_text(yaml.safe_dump(tree))
    fleet = load(tmp_path / "fleet.yml")
    assert fleet.gateway is not None
    assert fleet.remediator is not None
    assert fleet.remediator.gateway_token_file == fleet.gateway.admin_token_file


def test_every_command_on_the_page_exists_and_every_one_is_there() -> None:
    used = set(re.findall(r"^\$ vllm-gateway (?!--)(\w+)", PAGE, re.MULTILINE))
    assert used == set(COMMANDS)


def test_the_job_is_the_one_that_the_rules_know() -> None:
    block = PAGE.split("```yaml\nscrape_configs:")[1].split("```")[0]
    jobs = {job["job_name"] for job in yaml.safe_load(f"scrape_configs:{block}")["scrape_configs"]}
    shipped = yaml.safe_load((ROOT / "rules" / "prometheus.yml").read_text())["scrape_configs"]
    assert jobs == {job["job_name"] for job in shipped if "gateway" in job["job_name"]}
    (job,) = jobs
    assert f'job="{job}"' in (ROOT / "rules" / "alerts.yml").read_text()
