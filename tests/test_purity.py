"""Pure modules import nothing that does I/O, and read no clock: time is an argument there."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

PURE = (
    "fleet/backend.py",
    "fleet/discovery.py",
    "fleet/schema.py",
    "fleet/value.py",
    "fleet/way.py",
    "fleet/contradictions.py",
    "fleet/mistake.py",
    "fleet/page.py",
    "fleet/reading.py",
    "fleet/progress.py",
    "fleet/engine.py",
    "fleet/history.py",
    "fleet/judgement.py",
    "fleet/state.py",
    "exporter/backtest/target.py",
    "exporter/backtest/looks.py",
    "exporter/backtest/episode.py",
    "exporter/backtest/watched.py",
    "exporter/backtest/report.py",
    "exporter/backtest/limits.py",
    "exporter/backtest/document.py",
    "fleet/strict_yaml.py",
    "fleet/placed_yaml.py",
    "fleet/finding.py",
    "fleet/findings_report.py",
    "fleet/recognise.py",
    "fleet/unit_file.py",
    "fleet/compose_file.py",
    "fleet/manifest.py",
    "exporter/standing.py",
    "exporter/discovery/groups.py",
    "exporter/discovery/merge.py",
    "exporter/discovery/target.py",
    "exporter/rates.py",
    "exporter/sparkline.py",
    "exporter/board.py",
    "exporter/legend.py",
    "remediator/lint/command.py",
    "remediator/lint/compose.py",
    "remediator/lint/cron.py",
    "remediator/lint/healers.py",
    "remediator/lint/manifests.py",
    "remediator/lint/probe.py",
    "remediator/lint/rule.py",
    "remediator/lint/scheduled.py",
    "remediator/lint/source.py",
    "remediator/lint/units.py",
    "gateway/cors.py",
    "gateway/frames.py",
    "gateway/question.py",
    "gateway/seal.py",
    "gateway/spelling.py",
    "gateway/splice.py",
    "gateway/tries.py",
    "gateway/wish.py",
    "remediator/notification.py",
    "remediator/incident.py",
    "remediator/case.py",
    "remediator/decision.py",
    "remediator/commands/course.py",
    "remediator/commands/exit_status.py",
    "remediator/overview.py",
    "remediator/policy.py",
    "remediator/proof.py",
    "remediator/questions.py",
    "remediator/reasoning.py",
    "remediator/recovery.py",
    "remediator/restart/sentence.py",
    "remediator/rows.py",
    "remediator/shadow.py",
    "remediator/verdict.py",
    "remediator/wish.py",
    "benchmarks/crash/score.py",
    "gateway/bill.py",
    "gateway/members.py",
    "gateway/tally.py",
    "gateway/ledger/record.py",
    "gateway/ledger/entries.py",
    "gateway/ledger/progress.py",
    "gateway/ledger/report.py",
    "gateway/ledger/reconcile.py",
    "gateway/answer.py",
    "gateway/ask.py",
    "gateway/client_view.py",
    "gateway/closing.py",
    "gateway/cut.py",
    "gateway/edit.py",
    "gateway/onward.py",
    "gateway/outlet.py",
    "gateway/resumable.py",
    "gateway/said.py",
    "gateway/shape.py",
    "gateway/carried.py",
    "gateway/snapshot.py",
    "gateway/step.py",
    "gateway/stops.py",
    "gateway/stream.py",
    "gateway/quick.py",
    "gateway/run.py",
    "gateway/transcript.py",
    "gateway/finished.py",
    "gateway/whole.py",
    "gateway/doctor/annotations.py",
    "gateway/doctor/arithmetic.py",
    "gateway/doctor/compose.py",
    "gateway/doctor/ending.py",
    "gateway/doctor/haproxy.py",
    "gateway/doctor/haproxy_file.py",
    "gateway/doctor/nginx.py",
    "gateway/doctor/ours.py",
    "gateway/doctor/pods.py",
    "gateway/doctor/proxy.py",
    "gateway/doctor/replicas.py",
    "gateway/doctor/rule.py",
    "gateway/doctor/times.py",
    "gateway/doctor/units.py",
    "demo/vllm/engine.py",
    "demo/vllm/scheduler.py",
    "demo/vllm/page.py",
)
FORBIDDEN = (
    "requests",
    "urllib3",
    "socket",
    "flask",
    "waitress",
    "hypercorn",
    "asyncio",
    "ssl",
    "subprocess",
    "sqlite3",
    "sqlalchemy",
    "aiohttp",
    "prometheus_client",
    "threading",
    "time",
)
# A function from text to samples, in spite of its package (docs/decisions/0002).
ALLOWED = {("fleet/page.py", "prometheus_client.parser"), ("*", "prometheus_client.samples")}
CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today")}


def imported(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    return names


def offences(module: str, source: str) -> list[str]:
    tree = ast.parse(source)
    found = [
        f"{module} imports {name}"
        for name in imported(tree)
        if name.split(".")[0] in FORBIDDEN
        and (module, name) not in ALLOWED
        and ("*", name) not in ALLOWED
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if (name, node.func.attr) in CLOCKS:
                found.append(f"{module}:{node.lineno} reads a clock")
    return found


@pytest.mark.parametrize("module", PURE)
def test_a_pure_module_does_no_io_and_reads_no_clock(module: str) -> None:
    assert offences(module, (ROOT / module).read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import requests",
        "from sqlalchemy import select",
        "from time import monotonic",
        "import prometheus_client",
        "from datetime import datetime\ndatetime.now()",
    ],
)
def test_an_offence_is_seen(source: str) -> None:
    assert offences("remediator/policy.py", source) != []


@pytest.mark.parametrize("program", ["exporter", "remediator", "gateway"])
def test_programs_never_import_each_other(program: str) -> None:
    others = {"exporter", "remediator", "gateway", "demo", "grafana"} - {program}
    for file in (ROOT / program).rglob("*.py"):
        roots = {name.split(".")[0] for name in imported(ast.parse(file.read_text()))}
        assert roots.isdisjoint(others), file


def test_the_shared_package_knows_no_program() -> None:
    for file in (ROOT / "fleet").rglob("*.py"):
        roots = {name.split(".")[0] for name in imported(ast.parse(file.read_text()))}
        assert roots.isdisjoint({"exporter", "remediator", "gateway", "demo"}), file
