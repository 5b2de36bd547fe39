"""The rules on raw metrics: what they read, and which promtool test notices when one is wrong."""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from demo import parts
from fleet import reading
from grafana.promql import selectors
from tests.rules.shipped import ALERTS, DIRECT, DIRECT_NAMES, EXPRESSIONS, ROOT, RULES, Alert

DOCS = (ROOT / "docs" / "direct.md").read_text()
MOVES = "instance_engine:vllm_moves:changes2m"
WRITTEN_BY_THE_ENGINE = {*reading.GAUGES, *reading.COUNTERS, reading.WAITING_BY_REASON}
EVALUATED_EVERY = 15
SECONDS = {"s": 1, "m": 60}

each_alert = pytest.mark.parametrize(
    "alert", [alert for alert in ALERTS if alert.name in DIRECT_NAMES], ids=lambda alert: alert.name
)
each_expression = pytest.mark.parametrize("name", sorted(DIRECT_NAMES))


def metrics(name: str) -> set[str]:
    return {selector.metric for selector in selectors(EXPRESSIONS[name])}


def test_a_sign_of_life_is_anything_that_a_reading_keeps_and_nothing_else() -> None:
    recorded = metrics(MOVES)
    assert recorded == {*WRITTEN_BY_THE_ENGINE, reading.START_TIME}
    changing = set(re.findall(r"changes\(([\w:]+)", EXPRESSIONS[MOVES]))
    assert changing == recorded


def test_nothing_is_read_that_a_reading_does_not_know() -> None:
    recorded = {name for name in DIRECT_NAMES if ":" in name}
    # Weight updates are found by the beginning of their names.
    named = {*reading.NAMES} - {reading.UPDATES, reading.UPDATED}
    known = {*named, "up", "ALERTS", "__name__", *recorded}
    assert set().union(*map(metrics, DIRECT_NAMES)) == known


@each_alert
def test_an_alert_on_raw_metrics_is_a_persons_and_cannot_be_taken_for_another(
    alert: Alert,
) -> None:
    assert alert.name.startswith("VLLMDirectEngine")
    assert "remediate" not in alert.labels


@each_expression
def test_engines_and_servers_are_never_mixed(name: str) -> None:
    for labels in re.findall(r"\bby \(([^)]*)\)", EXPRESSIONS[name]):
        assert {"job", "instance"} <= set(labels.split(", "))
    assert not re.search(r"\b(sum|max|min|count|group)\s*\(", EXPRESSIONS[name])


def seconds(duration: str) -> int:
    return sum(int(n) * SECONDS[unit] for n, unit in re.findall(r"(\d+)([ms])", duration))


def answers(waits: int, wait: int) -> int:
    """Silent answers in a row that make so many waits; each is of two minutes, 15 s apart."""
    return waits * wait // EVALUATED_EVERY - 5


@pytest.mark.parametrize(("kind", "waits"), [("Quiet", 1), ("Stuck", 2), ("Starved", 4)])
def test_the_waits_are_what_the_file_says(kind: str, waits: int) -> None:
    asked = re.findall(
        r"count_over_time\(instance_engine:vllm_silence:count2m\[(\w+)\]\) >= (\d+)",
        EXPRESSIONS[f"VLLMDirectEngine{kind}"],
    )
    assert {int(count) for _, count in asked} == {answers(waits, 90)}
    assert seconds(asked[0][0]) == answers(waits, 90) * EVALUATED_EVERY
    for window, _ in asked[1:]:
        assert seconds(window) >= (waits + 1) * 90


def test_the_documented_waits_follow_the_same_rule() -> None:
    rows = re.findall(r"^\| (\d+) s \|(.*)\|$", DOCS, re.MULTILINE)
    assert [int(wait) for wait, _ in rows][:1] == [90]
    for wait, row in rows:
        cells = [re.findall(r"`([^`]+)`", cell) for cell in row.split("|")]
        for waits, (window, count) in zip((1, 2, 4), cells, strict=True):
            assert count == f">= {answers(waits, int(wait))}"
            assert seconds(window) == answers(waits, int(wait)) * EVALUATED_EVERY


def test_the_rules_are_evaluated_as_often_as_they_count_on() -> None:
    (group,) = yaml.safe_load(DIRECT.read_text())["groups"]
    assert group["interval"] == f"{EVALUATED_EVERY}s"


class Mutant(NamedTuple):
    """A wrong rule, and the promtool test (file and name) that has to notice."""

    pattern: str
    replacement: str
    file: str
    test: str


AT_TWO_WAITS = ("direct", "quiet at one wait, stuck at two, and neither a page earlier")
MUTANTS = {
    "one wait instead of two": Mutant(r"\[1m45s\]\) >= 7", "[15s]) >= 1", *AT_TWO_WAITS),
    "a little less than two waits": Mutant(r"\[1m45s\]\) >= 7", "[90s]) >= 6", *AT_TWO_WAITS),
    "a failed scrape ends an alert": Mutant(
        r'or\s+ALERTS\{alertname="VLLMDirectEngineStuck", alertstate="firing"\}\s+\)',
        ")",
        "direct",
        "a failed scrape neither ends the alert nor starts another",
    ),
    "what moved ends nothing": Mutant(
        r"instance_engine:vllm_moves:changes2m == 0",
        "instance_engine:vllm_moves:changes2m >= 0",
        "direct",
        "moving again ends it with the first page",
    ),
    "scrapes that fail now and then hide a hang": Mutant(
        r"\[5m\]\) >= 7",
        "[5m]) >= 70",
        "direct",
        "scrapes that fail every three minutes do not hide a hang for ever",
    ),
    "a failed scrape counts as watched": Mutant(
        r"== on \(job, instance\) group_left \(\)\s+instance:up:count2m\n",
        "\n",
        "direct",
        "a failed scrape before the proof does not count, and two whole waits after it do",
    ),
    "time without scrapes counts as watched": Mutant(
        r"max_over_time\(instance:up:count2m\[15m\]\)",
        "0",
        "direct",
        "time in which nobody scraped is not watched time",
    ),
    "the first minute of a target counts as two": Mutant(
        r"\(vllm:num_requests_running offset 2m\)",
        "vllm:num_requests_running",
        "direct",
        "a target that is new, and a restart into the very same page, are watched two waits",
    ),
    "a new process goes on with the silence of the old one": Mutant(
        r"changes\(process_start_time_seconds\[2m\]\) > 0",
        "changes(process_start_time_seconds[2m]) > 9",
        "direct",
        "a target that is new, and a restart into the very same page, are watched two waits",
    ),
    "scraped every minute is often enough": Mutant(
        r"instance:up:count2m >= 4",
        "instance:up:count2m >= 1",
        "direct",
        "scraped every 30 s it is found as well, and every minute it is said that nothing can be "
        "found",
    ),
    "engines are mixed": Mutant(
        r"(by|on) \(backend, job, instance, engine\)",
        r"\1 (backend, job, instance)",
        "direct",
        "of two engines only the one that hangs, and a label backend is kept",
    ),
    "models are told apart": Mutant(
        r"(by|on) \(backend, job, instance, engine\)",
        r"\1 (backend, job, instance, engine, model_name)",
        "direct",
        "of two models on one engine either keeps it alive",
    ),
    "KV usage is no sign of life": Mutant(
        r"or changes\(vllm:kv_cache_usage_perc\[2m\]\) > 0",
        "",
        "direct_unproven",
        "a long prefill alone moves nothing but KV usage",
    ),
    "KV usage under its old name is no sign of life": Mutant(
        r"or changes\(vllm:gpu_cache_usage_perc\[2m\]\) > 0",
        "",
        "direct_unproven",
        "blocks so large that KV usage moves once in two minutes, under its old name",
    ),
    "KV usage that is NaN is shown": Mutant(
        r"\) >= 0\n",
        ") != 0\n",
        "direct_unproven",
        "KV usage that is no number is not shown",
    ),
    "running that is NaN is 0": Mutant(
        r"vllm:num_requests_running(\[2m\]\)\)\n +\+)",
        r"vllm:num_requests_waiting\1",
        "direct_unproven",
        "running that is no number is not pending",
    ),
    "what waits for something outside is pending": Mutant(
        r'vllm:num_requests_waiting_by_reason\{reason="capacity"\}',
        "vllm:num_requests_waiting_by_reason",
        "direct_unproven",
        "every waiting request waits for something outside, which is starved at four waits",
    ),
    "waiting alone is pending": Mutant(
        r'vllm:num_requests_waiting_by_reason\{reason="capacity"\}',
        "vllm:num_requests_waiting",
        "direct_unproven",
        "an old release does not say what waits for what",
    ),
    "processes by turns are one": Mutant(
        r"\(resets\(process_start_time_seconds\[1h\]\) > 0\)",
        "(resets(process_start_time_seconds[1h]) > 9)",
        "direct_unproven",
        "pages of several processes by turns, and for an hour after",
    ),
    "weight updates are not seen": Mutant(
        r"vllm:rl_weight_update_",
        "vllm:somebody_elses_",
        "direct_unproven",
        "somebody updates weights here, and a pause looks like a hang",
    ),
    "sleep is silence": Mutant(
        r'(sleep_state="awake"\}\[2m\]\)\n +\)) == 0',
        r"\1 == 2",
        "direct_unproven",
        "asleep, and no alert when it wakes up before two waits are over",
    ),
    "what moved before it was away proves whose page it is": Mutant(
        r"and\n +instance_engine:vllm_pages:count2m\n\n      # Present where",
        "\n\n      # Present where",
        "direct_multiprocess",
        "its last work before it went away is no sign of life of the next",
    ),
    "waking up proves whose page it is": Mutant(
        r"or changes\(vllm:num_requests_waiting\[2m\]\) > 0",
        "or changes(vllm:engine_sleep_state[2m]) > 0",
        "direct_multiprocess",
        "waking up does not make a left-over page its own",
    ),
    "a page needs no proof of whose it is": Mutant(
        r"instance_engine:vllm_proven_alive:last\n +unless",
        "instance_engine:vllm_pages:count2m\n              unless",
        "direct_multiprocess",
        "stuck, restarted by hand, and the page left over is not stuck again",
    ),
}


def promtool(folder: Path, rules: str, mutant: Mutant) -> subprocess.CompletedProcess[str]:
    """The one named test of its file, on these rules."""
    content = yaml.safe_load((RULES / "tests" / f"{mutant.file}.yml").read_text())
    content["tests"] = [test for test in content["tests"] if test["name"] == mutant.test]
    assert len(content["tests"]) == 1, mutant.test
    content["rule_files"] = ["direct.yml"]
    (folder / "direct.yml").write_text(rules)
    (folder / "test.yml").write_text(yaml.safe_dump(content))
    program = parts.find().promtool
    checked = [program, "check", "rules", str(folder / "direct.yml")]
    subprocess.run(checked, check=True, capture_output=True, timeout=60)
    return subprocess.run(
        [program, "test", "rules", folder / "test.yml"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_wrong_rule_is_noticed(mutant: Mutant, tmp_path: Path) -> None:
    changed, count = re.subn(mutant.pattern, mutant.replacement, DIRECT.read_text())
    assert count > 0, f"direct.yml has no {mutant.pattern!r} any more"
    done = promtool(tmp_path, changed, mutant)
    assert done.returncode != 0
    assert "FAILED" in done.stdout + done.stderr, done.stderr
