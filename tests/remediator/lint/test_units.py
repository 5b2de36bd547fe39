"""systemd units and crontabs: how they are read, and which are a server's."""

import pytest

from tests.remediator.lint.judging import judged, rules

SERVER = "[Service]\nExecStart=/opt/bin/vllm serve m\n"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.service", SERVER + "Restart=always", ["unit-restart"]),
        ("a.service", SERVER + "Restart=no", []),
        ("a.service", SERVER + "Restart=always\nRestart=no", []),
        ("a.service", SERVER + "# Restart=always\n;WatchdogSec=5", []),
        ("a.service", SERVER + "WatchdogSec=30", ["unit-watchdog"]),
        ("a.service", SERVER + "WatchdogSec=infinity", []),
        ("a.service", "[Unit]\nFailureAction=reboot-force\n" + SERVER, ["unit-reboot"]),
        (
            "a.service",
            "[Service]\nExecStart=docker run vllm/vllm-openai\nWatchdogSec=1\n",
            ["unit-watchdog"],
        ),
        ("a.service", "[Service]\nExecStart=/bin/nginx\nWatchdogSec=1", []),
        ("vllm.service", "[Service]\nExecStart=/srv/start.sh\nWatchdogSec=1", ["unit-watchdog"]),
        ("vllm.service.d/x.conf", "[Service]\nWatchdogSec=1", ["unit-watchdog"]),
        ("vllm-gateway.service", "[Service]\nExecStart=vllm-gateway\nWatchdogSec=1", []),
        ("vllm-watchdog.service", "[Service]\nExecStart=/srv/vllm-watchdog", ["scheduled-program"]),
        (
            "vllm-restart.service",
            "[Service]\nExecStart=systemctl restart vllm",
            ["scheduled-restart"],
        ),
        ("vllm.timer", "[Timer]\nOnCalendar=daily\n", []),
        ("q.container", "[Container]\nImage=vllm/vllm-openai\nHealthOnFailure=none", []),
        ("q.container", "[Container]\nImage=nginx\nHealthOnFailure=kill", []),
    ],
)
def test_a_unit_is_judged_by_what_it_runs(name: str, text: str, expected: list[str]) -> None:
    assert rules(name, text) == expected


def test_a_continued_line_is_one_with_the_line_of_its_beginning() -> None:
    command = "/bin/sh -c \\\n  # a comment between\n 'systemctl \\\n restart vllm'"
    text = f"[Service]\nExecStart={command}\n"
    (finding,) = judged("mend.service", text)
    assert (finding.line, finding.rule) == (2, "scheduled-restart")


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("0 4 * * * systemctl restart vllm", "scheduled-restart"),
        ("*/5 0-6,22 1 jan mon-fri systemctl restart vllm", "scheduled-restart"),
        ("\t@daily\tsystemctl restart vllm", "scheduled-restart"),
        ("* * * * * vllm-exporter check http://a; [ $? -ne 1 ] || pkill vllm", "scheduled-check"),
        ("* * * * * /opt/vllm_health_check.py", "scheduled-program"),
        ("0 4 * * * systemctl restart vllm\r", "scheduled-restart"),
    ],
)
def test_a_cron_line_is_read(line: str, rule: str) -> None:
    for name in ("crontab", "root.cron", "no-name"):
        assert rules(name, f"MAILTO=me\n\n{line}\n") == [rule]


@pytest.mark.parametrize(
    "line", ["# 0 4 * * * systemctl restart vllm", "PATH=/vllm", "0 4 * * systemctl restart vllm"]
)
def test_what_is_no_cron_line_is_none(line: str) -> None:
    assert rules("crontab", f"0 0 * * * true\n{line}\n") == []


def test_the_user_of_a_line_is_not_its_program() -> None:
    text = "* * * * *\tvllm-watch\t/srv/vllm-check.sh\n"
    (finding,) = judged("cron.d/a", text)
    assert "runs /srv/vllm-check.sh at '* * * * *'" in finding.why
