"""fleet.yml: what is valid, and the exact sentence for each mistake."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.backend import Backend, Kind, Restart
from fleet.discovery import Dns, Files, Record, Source
from fleet.settings import (
    BasicAuth,
    ExporterSettings,
    Mode,
    RemediatorSettings,
    Settings,
    SettingsError,
    Tls,
    Unreachable,
    load,
    parse,
)
from fleet.way import Command, Docker, Kubernetes, Systemd

FILE = Path("/etc/lifeguard/fleet.yml")
ONE = "backends:\n  - {name: gpu-a, url: 'http://h:8000'}\n"
REMEDIATOR = "remediator: {mode: act, token_file: token, alertmanager: 'http://am:9093'"


def problems(text: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        parse(text, FILE)
    assert str(caught.value) == "\n".join(caught.value.problems)
    for problem in caught.value.problems:
        assert problem.startswith(f"{FILE}:")
    return [problem.removeprefix(f"{FILE}") for problem in caught.value.problems]


def backend_with(entry: str) -> str:
    return f"backends:\n  - {{name: gpu-a, url: 'http://h', {entry}}}\n"


NOT_A_NAME = (
    "is not a backend name (letters, digits, '_', '.', '-'; 63 at most; "
    "the first a letter or digit)"
)
NO_DURATION = "is not a duration such as 90s, 1m30s or 2h"
NO_TARGETS_FILE = (
    "is not the path of a .json, .yml or .yaml file (its last part may have '*' in it)"
)
NO_RESOLVER = "is not the IP address of a DNS server, such as 10.0.0.53 or 10.0.0.53:53"
NO_BACKENDS = (
    ": backends: is required where there is no discovery: a list of backends, each with a name "
    "and a url"
)
MODE_IS_REQUIRED = (
    ": remediator.mode: is required: 'act' restarts what is proven stuck, 'shadow' decides and "
    "records the same but restarts nothing"
)

MISTAKES = {
    "an empty file": ("", ": is not a mapping with a list of backends"),
    "a list instead of a mapping": ("- a", ": is not a mapping with a list of backends"),
    "text instead of a mapping": ("hello", ": is not a mapping with a list of backends"),
    "no backends": (
        "exporter: {}",
        NO_BACKENDS,
    ),
    "an empty list of backends": (
        "backends: []",
        NO_BACKENDS,
    ),
    "backends without a value": ("backends:", ": backends: None is not a list"),
    "a mapping of backends": ("backends: {a: b}", ": backends: {'a': 'b'} is not a list"),
    "a backend that is text": ("backends: [gpu-a]", ": backends[0]: 'gpu-a' is not a mapping"),
    "a backend without a name": (
        "backends: [{url: 'http://h'}]",
        ": backends[0].name: is required",
    ),
    "a backend without a url": ("backends: [{name: a}]", ": backends[0].url: is required"),
    "a number for a name": (
        "backends: [{name: 7, url: 'http://h'}]",
        ": backends[0].name: 7 is not text",
    ),
    "a name with a space": (
        "backends: [{name: gpu a, url: 'http://h'}]",
        f": backends[0].name: 'gpu a' {NOT_A_NAME}",
    ),
    "a name that begins with a dash": (
        "backends: [{name: -a, url: 'http://h'}]",
        f": backends[0].name: '-a' {NOT_A_NAME}",
    ),
    "a name with a line break at its end": (
        'backends: [{name: "a\\n", url: "http://h"}]',
        f": backends[0].name: 'a\\n' {NOT_A_NAME}",
    ),
    "an empty name": (
        "backends: [{name: '', url: 'http://h'}]",
        f": backends[0].name: '' {NOT_A_NAME}",
    ),
    "a name of 64 letters": (
        f"backends: [{{name: {'a' * 64}, url: 'http://h'}}]",
        f": backends[0].name: '{'a' * 64}' {NOT_A_NAME}",
    ),
    "a name that stands there twice": (
        (
            "backends: [{name: a, url: 'http://h'}, {name: b, url: 'http://h'}, "
            "{name: a, url: 'http://g'}]"
        ),
        ": backends[2].name: 'a' is already the name of backends[0]",
    ),
    "a url of another scheme": (
        "backends: [{name: a, url: 'ftp://h'}]",
        ": backends[0].url: 'ftp://h' is not an http(s) URL",
    ),
    "a url without a scheme": (
        "backends: [{name: a, url: 'h:8000'}]",
        ": backends[0].url: 'h:8000' is not an http(s) URL",
    ),
    "a url without a host": (
        "backends: [{name: a, url: 'http://'}]",
        ": backends[0].url: 'http://' is not an http(s) URL",
    ),
    "a url with a port that is none": (
        "backends: [{name: a, url: 'http://h:99999'}]",
        ": backends[0].url: 'http://h:99999' is not an http(s) URL",
    ),
    "a url with port 0": (
        "backends: [{name: a, url: 'http://h:0'}]",
        ": backends[0].url: 'http://h:0' is not an http(s) URL",
    ),
    "a url with half an IPv6 address": (
        "backends: [{name: a, url: 'http://[::1'}]",
        ": backends[0].url: 'http://[::1' is not an http(s) URL",
    ),
    "a url with a space": (
        "backends: [{name: a, url: 'http://h b'}]",
        ": backends[0].url: 'http://h b' is not an http(s) URL",
    ),
    "a url with a line break": (
        'backends: [{name: a, url: "http://h\\n"}]',
        ": backends[0].url: 'http://h\\n' is not an http(s) URL",
    ),
    "a url with a query": (
        "backends: [{name: a, url: 'http://h/?a=b'}]",
        ": backends[0].url: 'http://h/?***' has a query or fragment, which a base URL cannot have",
    ),
    "a url with an empty query": (
        "backends: [{name: a, url: 'http://h/?'}]",
        ": backends[0].url: 'http://h/?***' has a query or fragment, which a base URL cannot have",
    ),
    "a url with a fragment": (
        "backends: [{name: a, url: 'http://h/#x'}]",
        ": backends[0].url: 'http://h/#***' has a query or fragment, which a base URL cannot have",
    ),
    "a kind that there is not": (
        backend_with("kind: tgi"),
        ": backends[0].kind: 'tgi' is not 'vllm' or 'proxy'",
    ),
    "a setting that is misspelt": (
        backend_with("wiat: 90s"),
        ": backends[0].wiat: is not a setting (did you mean 'wait'?)",
    ),
    "a setting that resembles none": (
        backend_with("xyzzy: 1"),
        ": backends[0].xyzzy: is not a setting",
    ),
    "a misspelt section": (
        f"{ONE}exporterr: {{}}",
        ": exporterr: is not a setting (did you mean 'exporter'?)",
    ),
    "a misspelt setting of a section": (
        f"{ONE}exporter: {{intervall: 15s}}",
        ": exporter.intervall: is not a setting (did you mean 'interval'?)",
    ),
    "a misspelt setting of the defaults": (
        f"{ONE}defaults: {{loadtime: 15s}}",
        ": defaults.loadtime: is not a setting (did you mean 'load_time'?)",
    ),
    "a misspelt setting of the remediator": (
        f"{ONE}{REMEDIATOR}, cooldown: 1h}}",
        ": remediator.cooldown: is not a setting (did you mean 'cool_down'?)",
    ),
    "a misspelt setting of a restart": (
        backend_with("restart: {comand: [x], command: [x]}"),
        ": backends[0].restart.comand: is not a setting (did you mean 'command'?)",
    ),
    "a setting whose name has a line break": (
        f'{ONE}"a\\nb": 1',
        ": 'a\\nb': is not a setting",
    ),
    "a number for a setting's name": (f"{ONE}7: 1", ": [7]: is not a setting"),
    "a key that stands there twice": (
        "backends: []\nbackends: []",
        ":2:1: is not valid YAML: the key 'backends' stands there twice",
    ),
    "a key that stands there twice, deep inside": (
        "backends:\n  - name: a\n    url: http://h\n    name: b\n",
        ":4:5: is not valid YAML: the key 'name' stands there twice",
    ),
    "a duration without a unit": (
        backend_with("wait: 90"),
        f": backends[0].wait: 90 {NO_DURATION}",
    ),
    "a duration with a fraction": (
        backend_with("wait: 1.5m"),
        f": backends[0].wait: '1.5m' {NO_DURATION}",
    ),
    "a duration with its units in the wrong order": (
        backend_with("wait: 30s1m"),
        f": backends[0].wait: '30s1m' {NO_DURATION}",
    ),
    "a negative duration": (
        backend_with("wait: -90s"),
        f": backends[0].wait: '-90s' {NO_DURATION}",
    ),
    "an empty duration": (backend_with("wait: ''"), f": backends[0].wait: '' {NO_DURATION}"),
    "a duration with a line break at its end": (
        backend_with('wait: "90s\\n"'),
        f": backends[0].wait: '90s\\n' {NO_DURATION}",
    ),
    "a duration in other digits": (
        backend_with("wait: ٩0s"),
        f": backends[0].wait: '٩0s' {NO_DURATION}",
    ),
    "a duration of zero": (
        backend_with("wait: 0s"),
        ": backends[0].wait: '0s' is not longer than zero",
    ),
    "a duration of two years": (
        backend_with("wait: 104w"),
        ": backends[0].wait: '104w' is longer than a year",
    ),
    "a duration no number can hold": (
        backend_with(f"wait: {'9' * 400}s"),
        f": backends[0].wait: '{'9' * 76}... is longer than a year",
    ),
    "a wait of less than two intervals": (
        backend_with("wait: 29s"),
        (
            ": backends[0].wait: 29s is shorter than two poll intervals (exporter.interval is "
            "15s); "
            "one wait must hold two reads"
        ),
    ),
    "a timeout longer than the interval": (
        f"{ONE}exporter: {{interval: 5s, timeout: 6s}}",
        (
            ": exporter.timeout: 6s is longer than exporter.interval (5s); one read must end "
            "before "
            "the next begins"
        ),
    ),
    "an answer_every that is null": (
        f"{ONE}exporter: {{answer_every: null}}",
        f": exporter.answer_every: None {NO_DURATION}",
    ),
    "an answer_every of on": (
        f"{ONE}exporter: {{answer_every: on}}",
        f": exporter.answer_every: True {NO_DURATION}",
    ),
    "a section that is null": (f"{ONE}exporter:", ": exporter: None is not a mapping"),
    "a key file without a name": (
        backend_with("api_key_file: ''"),
        ": backends[0].api_key_file: '' is not the path of a file",
    ),
    "a key file with a null byte": (
        backend_with('api_key_file: "a\\0b"'),
        ": backends[0].api_key_file: 'a\\x00b' is not the path of a file",
    ),
    "a restart without a command": (
        backend_with("restart: {timeout: 9s}"),
        ": backends[0].restart: needs one of command, systemd, docker, kubernetes",
    ),
    "a restart command that is text": (
        backend_with("restart: {command: reboot now}"),
        ": backends[0].restart.command: 'reboot now' is not a list",
    ),
    "a restart command without words": (
        backend_with("restart: {command: []}"),
        ": backends[0].restart.command: [] names no program",
    ),
    "a restart command whose program is empty": (
        backend_with("restart: {command: ['', x]}"),
        ": backends[0].restart.command: ['', 'x'] names no program",
    ),
    "a restart command with a number": (
        backend_with("restart: {command: [sleep, 5]}"),
        ": backends[0].restart.command[1]: 5 is not text",
    ),
    "two ways to restart": (
        backend_with("restart: {command: [x], systemd: {unit: a.service}}"),
        (
            ": backends[0].restart: needs one of command, systemd, docker, kubernetes, and has "
            "command and systemd"
        ),
    ),
    "a unit that is none": (
        backend_with("restart: {systemd: {unit: '-a; rm'}}"),
        (
            ": backends[0].restart.systemd.unit: '-a; rm' is not the name of a systemd unit, such "
            "as vllm@gpu-a.service"
        ),
    ),
    "a container that is none": (
        backend_with("restart: {docker: {container: ../x}}"),
        ": backends[0].restart.docker.container: '../x' is not the name or id of a container",
    ),
    "a container engine that is none": (
        backend_with("restart: {docker: {container: x, host: 'ssh://h'}}"),
        (
            ": backends[0].restart.docker.host: 'ssh://h' is not where a container engine listens, "
            "such as unix:///var/run/docker.sock"
        ),
    ),
    "a setting of a way that is misspelt": (
        backend_with("restart: {docker: {container: x, grase: 5s}}"),
        ": backends[0].restart.docker.grase: is not a setting (did you mean 'grace'?)",
    ),
    "nothing in Kubernetes": (
        backend_with("restart: {kubernetes: {namespace: n}}"),
        ": backends[0].restart.kubernetes: needs one of pod, selector, workload",
    ),
    "a workload of no kind": (
        backend_with("restart: {kubernetes: {namespace: n, workload: job/x}}"),
        (
            ": backends[0].restart.kubernetes.workload: 'job/x' is not a workload: "
            "deployment/NAME, statefulset/NAME, daemonset/NAME"
        ),
    ),
    "a workload with a grace": (
        backend_with("restart: {kubernetes: {namespace: n, workload: deployment/x, grace: 1s}}"),
        ": backends[0].restart.kubernetes.grace: is for pods; a workload has its own",
    ),
    "a container's grace as long as its restart may take": (
        backend_with("restart: {timeout: 30s, docker: {container: c}}"),
        ": backends[0].restart.docker.grace: 30s is not shorter than restart.timeout (30s)",
    ),
    "a pod's grace longer than its restart may take": (
        backend_with("restart: {kubernetes: {namespace: n, pod: p, grace: 3m}}"),
        ": backends[0].restart.kubernetes.grace: 180s is not shorter than restart.timeout (120s)",
    ),
    "a name Kubernetes cannot have": (
        backend_with("restart: {kubernetes: {namespace: N, pod: x}}"),
        (
            ": backends[0].restart.kubernetes.namespace: 'N' is not a name of Kubernetes "
            "(lower-case letters, digits, '-', '.')"
        ),
    ),
    "a share of more than all": (
        f"{ONE}{REMEDIATOR}, storm_share: 1.5}}",
        ": remediator.storm_share: 1.5 is wrong: input should be less than or equal to 1",
    ),
    "a longest cool-down that is not the longest": (
        f"{ONE}{REMEDIATOR}, cool_down: 2h, longest_cool_down: 1h}}",
        ": remediator.longest_cool_down: 3600s is shorter than cool_down (7200s)",
    ),
    "no mode": (
        f"{ONE}remediator: {{token_file: token, alertmanager: 'http://am'}}",
        MODE_IS_REQUIRED,
    ),
    "a mode that there is not": (
        f"{ONE}remediator: {{mode: dry-run, token_file: t, alertmanager: 'http://am'}}",
        ": remediator.mode: 'dry-run' is not 'act' or 'shadow'",
    ),
    "no token file": (
        f"{ONE}remediator: {{mode: act, alertmanager: 'http://am'}}",
        (
            ": remediator.token_file: is required where there is no basic_auth: the file with the "
            "bearer token that Alertmanager sends"
        ),
    ),
    "no Alertmanager": (
        f"{ONE}remediator: {{mode: act, token_file: t}}",
        (
            ": remediator.alertmanager: is required: the URL of Alertmanager, asked for silences "
            "before a restart"
        ),
    ),
    "no restart allowed in the fleet": (
        f"{ONE}{REMEDIATOR}, fleet_restarts: 0}}",
        ": remediator.fleet_restarts: 0 is wrong: input should be greater than or equal to 1",
    ),
    "a number of restarts that is text": (
        f"{ONE}{REMEDIATOR}, fleet_restarts: '3'}}",
        ": remediator.fleet_restarts: '3' is not a whole number",
    ),
    "no backends and an empty discovery": ("discovery: []", NO_BACKENDS),
    "a source of nothing": (
        "discovery: [{refresh: 5s}]",
        ": discovery[0]: needs either files or dns",
    ),
    "a source of both": (
        "discovery: [{files: [a.json], dns: {names: [a]}}]",
        ": discovery[0]: needs either files or dns",
    ),
    "a source that is text": ("discovery: [a.json]", ": discovery[0]: 'a.json' is not a mapping"),
    "a misspelt setting of a source": (
        "discovery: [{file: [a.json]}]",
        ": discovery[0].file: is not a setting (did you mean 'files'?)",
    ),
    "a misspelt setting of dns": (
        "discovery: [{dns: {name: [a], names: [a]}}]",
        ": discovery[0].dns.name: is not a setting (did you mean 'names'?)",
    ),
    "a source with a name that another has": (
        "discovery: [{name: a, files: [a.json]}, {name: a, files: [b.json]}]",
        ": discovery[1].name: 'a' is already the name of discovery[0]",
    ),
    "no files": (
        "discovery: [{files: []}]",
        (
            ": discovery[0].files: [] is wrong: list should have at least 1 item after "
            "validation, not 0"
        ),
    ),
    "files with another ending": (
        "discovery: [{files: [a.json, targets/*.txt]}]",
        f": discovery[0].files[1]: 'targets/*.txt' {NO_TARGETS_FILE}",
    ),
    "files in any folder": (
        "discovery: [{files: ['*/a.json']}]",
        f": discovery[0].files[0]: '*/a.json' {NO_TARGETS_FILE}",
    ),
    "dns without names": (
        "discovery: [{dns: {type: SRV}}]",
        ": discovery[0].dns.names: is required: a list of the DNS names to look up",
    ),
    "a name that is no DNS name": (
        "discovery: [{dns: {names: ['http://h']}}]",
        ": discovery[0].dns.names[0]: 'http://h' is not a DNS name",
    ),
    "a DNS name of 255 letters": (
        f"discovery: [{{dns: {{names: [{'a.' * 127}a]}}}}]",
        f": discovery[0].dns.names[0]: '{'a.' * 38}... is not a DNS name",
    ),
    "a type of records that is not looked up": (
        "discovery: [{dns: {names: [h], type: MX}}]",
        ": discovery[0].dns.type: 'MX' is not 'A', 'AAAA' or 'SRV'",
    ),
    "addresses without a port": (
        "discovery: [{dns: {names: [h], type: A}}]",
        ": discovery[0].dns.port: is required with type A, whose records hold no port",
    ),
    "SRV with a port": (
        "discovery: [{dns: {names: [h], port: 8000}}]",
        ": discovery[0].dns.port: 8000 cannot stand with type SRV, whose records hold the port",
    ),
    "a port that is none": (
        "discovery: [{dns: {names: [h], type: A, port: 70000}}]",
        ": discovery[0].dns.port: 70000 is wrong: input should be less than or equal to 65535",
    ),
    "a resolver with a name": (
        "discovery: [{dns: {names: [h], resolver: dns.example}}]",
        f": discovery[0].dns.resolver: 'dns.example' {NO_RESOLVER}",
    ),
    "a resolver with half an address": (
        "discovery: [{dns: {names: [h], resolver: '[::1'}}]",
        f": discovery[0].dns.resolver: '[::1' {NO_RESOLVER}",
    ),
    "a resolver with a path": (
        "discovery: [{dns: {names: [h], resolver: 10.0.0.1/x}}]",
        f": discovery[0].dns.resolver: '10.0.0.1/x' {NO_RESOLVER}",
    ),
    "a source of another scheme": (
        "discovery: [{files: [a.json], scheme: ftp}]",
        ": discovery[0].scheme: 'ftp' is not 'http' or 'https'",
    ),
    "a wait of a source of less than two intervals": (
        "discovery: [{files: [a.json], wait: 29s}]",
        (
            ": discovery[0].wait: 29s is shorter than two poll intervals (exporter.interval is "
            "15s); one wait must hold two reads"
        ),
    ),
    "YAML that does not end": (
        "backends: [",
        ":1:12: is not valid YAML: expected the node content, but found '<stream end>'",
    ),
    "an alias of nothing": ("backends: *a", ":1:11: is not valid YAML: found undefined alias 'a'"),
    "a list as a key": ("? [a]\n: b", ":1:3: is not valid YAML: found unhashable key"),
    "a date that is none": (
        "backends: 2024-99-99",
        ": is not valid YAML: month must be in 1..12",
    ),
    "a tag of a program": (
        "backends: !!python/object/apply:os.system [id]",
        (
            ":1:11: is not valid YAML: could not determine a constructor for the tag "
            "'tag:yaml.org,2002:python/object/apply:os.system'"
        ),
    ),
    "a control character": (
        "backends: \0",
        (
            ": is not valid YAML: unacceptable character #x0000: special characters are not "
            "allowed "
            'in "<unicode string>", position 10'
        ),
    ),
    "brackets without an end": (
        "backends: " + "[" * 1000,
        ": is not valid YAML: it is nested too deeply",
    ),
    "backends inside themselves": (
        "backends: &a [*a]",
        ": backends[0]: [[...]] is not a mapping",
    ),
}


@pytest.mark.parametrize(("text", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_each_mistake_has_its_sentence(text: str, sentence: str) -> None:
    assert problems(text) == [sentence]


def test_all_mistakes_are_told_at_once() -> None:
    assert problems("backends: [{name: a b, url: h}]\nexporter: {interval: 15}\nx: 1") == [
        f": backends[0].name: 'a b' {NOT_A_NAME}",
        ": backends[0].url: 'h' is not an http(s) URL",
        f": exporter.interval: 15 {NO_DURATION}",
        ": x: is not a setting",
    ]


def test_all_contradictions_are_told_at_once() -> None:
    text = """
      exporter: {interval: 60s, timeout: 90s}
      backends:
        - {name: a, url: 'http://h'}
        - {name: a, url: 'http://h', wait: 3m}
        - {name: a, url: 'http://h', wait: 2m}
    """
    assert problems(text) == [
        (
            ": backends[0].wait: 90s is shorter than two poll intervals (exporter.interval is "
            "60s); "
            "one wait must hold two reads"
        ),
        ": backends[1].name: 'a' is already the name of backends[0]",
        ": backends[2].name: 'a' is already the name of backends[0]",
        (
            ": exporter.timeout: 90s is longer than exporter.interval (60s); one read must "
            "end before "
            "the next begins"
        ),
    ]


@pytest.mark.parametrize(
    "url",
    [
        "http://user:SECRET@h",
        "http://SECRET@h",
        "http://user:SEC/SECRET@h",
        "http://user:a@SECRET@h:8000/v1",
        "ftp://user:SECRET@h",
        "http://h/?api_key=SECRET",
        "http://h/#SECRET",
        "http://h/a?b=http://SECRET",
        "http://h/?x=' SECRET",
        "http://user:" + "x" * 90 + "SECRET@h",
    ],
)
def test_what_may_be_secret_in_a_url_is_never_shown(url: str) -> None:
    quoted = '"' + url + '"'
    for text in (
        f"backends: [{{name: a, url: {quoted}}}]",
        f"backends: {{name: a, url: {quoted}}}",
        f"backends: [{{name: a, url: [{quoted}]}}]",
        f"backends: [[{quoted}]]",
        f"{ONE}remediator: {{mode: {quoted}, token_file: t, alertmanager: {quoted}}}",
        f"{ONE}defaults: {{wait: {quoted}}}",
    ):
        for problem in problems(text):
            assert "SECRET" not in problem


def test_a_database_url_with_a_password_is_never_shown() -> None:
    text = f"{ONE}{REMEDIATOR}, database: ['postgresql://u:SECRET@db/x']}}"
    assert problems(text) == [": remediator.database: ['postgresql://***@db/x'] is not text"]


def test_a_file_with_nothing_but_a_backend_has_the_documented_defaults() -> None:
    assert parse(ONE, FILE) == Settings(
        file=FILE,
        backends=(
            Backend(
                name="gpu-a",
                url="http://h:8000",
                kind=Kind.VLLM,
                wait=90.0,
                load_time=600.0,
                warm_up=180.0,
            ),
        ),
        exporter=ExporterSettings(interval=15.0, timeout=5.0, answer_every=300.0),
        remediator=None,
    )


def test_a_file_with_everything_is_read_in_full() -> None:
    text = """
      defaults: {wait: 2m, load_time: 1h, warm_up: 4m}
      backends:
        - {name: gpu-a, url: 'https://h/base/', wait: 1m30s, load_time: 5m, warm_up: 1m,
           api_key_file: keys/a, restart: {command: [systemctl, restart, x], timeout: 500ms},
           evidence: [[nvidia-smi], [py-spy, dump]], gateways: ['http://g:8080/']}
        - {name: lb, url: 'http://[::1]:80', kind: proxy, api_key_file: /run/key, restart: null}
      exporter: {interval: 10s, timeout: 2s, answer_every: 1h}
      remediator:
        {mode: shadow, token_file: /run/token, alertmanager: 'http://am:9093/', database: 'x:///y',
         basic_auth: {username: am, password_file: pw}, api_token_file: api,
         tls: {certificate_file: tls.crt, key_file: tls.key}, alertmanager_unreachable: go_on,
         takeover_after: 10s, confirm_for: 1s, answer_within: 2s, recheck_every: 3s,
         patrol_every: 20s, cool_down: 4s, longest_cool_down: 6s, helped_after: 7s,
         give_up_after: 8, backend_restarts: 9, backend_window: 11s, fleet_restarts: 5,
         fleet_window: 1d, max_parallel: 2, storm_share: 0.25, storm_least: 4, longest_hold: 1d,
         gateway_token_file: gw, drain_timeout: 12s, evidence_folder: seen, evidence_timeout: 13s,
         evidence_keep: 14}
    """
    read = parse(text, FILE)
    assert read == Settings(
        file=FILE,
        backends=(
            Backend(
                name="gpu-a",
                url="https://h/base",
                kind=Kind.VLLM,
                wait=90.0,
                load_time=300.0,
                warm_up=60.0,
                api_key_file=Path("/etc/lifeguard/keys/a"),
                restart=Restart(Command(("systemctl", "restart", "x")), 0.5),
                evidence=(("nvidia-smi",), ("py-spy", "dump")),
                gateways=("http://g:8080",),
            ),
            Backend(
                name="lb",
                url="http://[::1]:80",
                kind=Kind.PROXY,
                wait=120.0,
                load_time=3600.0,
                warm_up=240.0,
                api_key_file=Path("/run/key"),
            ),
        ),
        exporter=ExporterSettings(interval=10.0, timeout=2.0, answer_every=3600.0),
        remediator=RemediatorSettings(
            mode=Mode.SHADOW,
            token_file=Path("/run/token"),
            basic_auth=BasicAuth("am", Path("/etc/lifeguard/pw")),
            api_token_file=Path("/etc/lifeguard/api"),
            tls=Tls(Path("/etc/lifeguard/tls.crt"), Path("/etc/lifeguard/tls.key")),
            database="x:///y",
            alertmanager="http://am:9093",
            alertmanager_unreachable=Unreachable.GO_ON,
            takeover_after=10.0,
            confirm_for=1.0,
            answer_within=2.0,
            recheck_every=3.0,
            patrol_every=20.0,
            cool_down=4.0,
            longest_cool_down=6.0,
            helped_after=7.0,
            give_up_after=8,
            backend_restarts=9,
            backend_window=11.0,
            fleet_restarts=5,
            fleet_window=86400.0,
            max_parallel=2,
            storm_share=0.25,
            storm_least=4,
            longest_hold=86400.0,
            gateway_token_file=Path("/etc/lifeguard/gw"),
            drain_timeout=12.0,
            evidence_folder=Path("/etc/lifeguard/seen"),
            evidence_timeout=13.0,
            evidence_keep=14,
        ),
    )
    assert read.backend("lb") is read.backends[1]
    assert read.backend("LB") is None


def test_each_way_to_restart_is_read_in_full() -> None:
    text = """
      defaults: {gateways: ['http://g1:8080', 'http://g2:8080']}
      backends:
        - {name: a, url: 'http://a', restart: {systemd: {unit: 'vllm@a.service', user: true}}}
        - {name: b, url: 'http://b', gateways: [],
           restart: {docker: {container: vllm-b, host: 'tcp://h:2375', grace: 5s}}}
        - {name: c, url: 'http://c', restart: {docker: {container: vllm-c}, timeout: 3m}}
        - {name: d, url: 'http://d', restart: {kubernetes: {namespace: n, pod: vllm-0, grace: 9s}}}
        - {name: e, url: 'http://e', restart: {kubernetes:
           {namespace: n, workload: deployment/vllm, kubeconfig: kube, context: prod}}}
    """
    read = parse(text, FILE).backends
    assert [backend.restart and backend.restart.way for backend in read] == [
        Systemd("vllm@a.service", user=True),
        Docker("vllm-b", "tcp://h:2375", 5.0),
        Docker("vllm-c", "unix:///var/run/docker.sock", 30.0),
        Kubernetes("n", pod="vllm-0", grace=9.0),
        Kubernetes(
            "n",
            workload="deployment/vllm",
            kubeconfig=Path("/etc/lifeguard/kube"),
            context="prod",
        ),
    ]
    assert [backend.restart and backend.restart.timeout for backend in read[:3]] == [120, 120, 180]
    assert [len(backend.gateways) for backend in read] == [2, 0, 2, 2, 2]


def test_sources_are_read_in_full_and_have_the_documented_defaults() -> None:
    text = """
      defaults: {wait: 2m, load_time: 1h}
      discovery:
        - files: [targets/*.json, /run/t.yml]
        - {name: v6, dns: {names: [vllm.example.], type: AAAA, port: 8000, resolver: '[::1]:5353'},
           refresh: 1m, scheme: https, kind: proxy, wait: 3m, api_key_file: keys/a}
        - {dns: {names: [_vllm._tcp.example], resolver: '::1'}}
    """
    read = parse(text, FILE)
    assert read.backends == ()
    assert read.discovery == (
        Source(
            name="discovery[0]",
            lookup=Files((Path("/etc/lifeguard/targets/*.json"), Path("/run/t.yml"))),
            refresh=5.0,
            scheme="http",
            kind=Kind.VLLM,
            wait=120.0,
            load_time=3600.0,
            warm_up=180.0,
        ),
        Source(
            name="v6",
            lookup=Dns(("vllm.example.",), Record.AAAA, 8000, ("::1", 5353)),
            refresh=60.0,
            scheme="https",
            kind=Kind.PROXY,
            wait=180.0,
            load_time=3600.0,
            warm_up=180.0,
            api_key_file=Path("/etc/lifeguard/keys/a"),
        ),
        Source(
            name="discovery[2]",
            lookup=Dns(("_vllm._tcp.example",), Record.SRV, None, ("::1", 53)),
            refresh=30.0,
            scheme="http",
            kind=Kind.VLLM,
            wait=120.0,
            load_time=3600.0,
            warm_up=180.0,
        ),
    )


def test_a_wait_of_exactly_two_intervals_and_a_timeout_of_one_are_allowed() -> None:
    text = f"{ONE}exporter: {{interval: 45s, timeout: 45s}}"
    assert parse(text, FILE).backends[0].wait == 90.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1ms", 0.001),
        ("1s", 1.0),
        ("1m", 60.0),
        ("1h", 3600.0),
        ("1d", 86400.0),
        ("1w", 604800.0),
        ("1h1ms", 3600.001),
        ("366d", 366 * 86400.0),
        ("0h90s", 90.0),
    ],
)
def test_a_duration_is_read_as_prometheus_reads_it(text: str, seconds: float) -> None:
    read = parse(f"{ONE}{REMEDIATOR}, cool_down: {text}}}", FILE).remediator
    assert read is not None
    assert read.cool_down == pytest.approx(seconds)


@pytest.mark.parametrize("off", ["off", "'off'", "no", "false"])
def test_off_sends_no_short_request(off: str) -> None:
    assert parse(f"{ONE}exporter: {{answer_every: {off}}}", FILE).exporter.answer_every is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("sqlite:///remediator.db", "sqlite:////etc/lifeguard/remediator.db"),
        ("sqlite:////var/x.db", "sqlite:////var/x.db"),
        ("sqlite+pysqlite:///x.db", "sqlite+pysqlite:////etc/lifeguard/x.db"),
        ("sqlite://", "sqlite://"),
        ("sqlite:///", "sqlite:///"),
        ("sqlite:///:memory:", "sqlite:///:memory:"),
        ("postgresql://u:p@db/x", "postgresql://u:p@db/x"),
        ("postgresql:///x", "postgresql:///x"),
    ],
)
def test_only_a_relative_sqlite_file_stands_beside_the_settings(written: str, read: str) -> None:
    remediator = parse(f"{ONE}{REMEDIATOR}, database: '{written}'}}", FILE).remediator
    assert remediator is not None
    assert remediator.database == read


def test_a_merge_may_be_overwritten() -> None:
    text = """
      backends:
        - &a {name: gpu-a, url: 'http://h', wait: 1m}
        - {<<: *a, name: gpu-b}
        - &c {<<: *a, name: gpu-c, wait: 2m}
        - {<<: *c, name: gpu-d}
    """
    read = parse(text, FILE).backends
    assert [(b.name, b.wait) for b in read] == [
        ("gpu-a", 60.0),
        ("gpu-b", 60.0),
        ("gpu-c", 120.0),
        ("gpu-d", 120.0),
    ]


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(SettingsError) as caught:
        load(Path("nowhere/fleet.yml"))
    assert str(caught.value) == "nowhere/fleet.yml: cannot be read: No such file or directory"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path)
    assert str(caught.value) == f"{tmp_path}: cannot be read: Is a directory"


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: cannot be read: is not UTF-8 text"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    (tmp_path / "conf").mkdir()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def test_relative_paths_are_relative_to_the_file_wherever_it_was_started(elsewhere: Path) -> None:
    (elsewhere / "conf/fleet.yml").write_text(backend_with("api_key_file: ../keys/a"))
    read = load(Path("conf/fleet.yml"))
    assert read.backends[0].api_key_file == elsewhere / "conf/../keys/a"


def test_a_mounted_configmap_does_not_lead_into_a_folder_that_will_go(tmp_path: Path) -> None:
    """Kubernetes links fleet.yml -> ..data/fleet.yml and ..data -> a folder it replaces."""
    (tmp_path / "..2024_01_01").mkdir()
    (tmp_path / "..2024_01_01/fleet.yml").write_text(backend_with("api_key_file: key"))
    (tmp_path / "..data").symlink_to("..2024_01_01")
    (tmp_path / "fleet.yml").symlink_to("..data/fleet.yml")
    assert load(tmp_path / "fleet.yml").backends[0].api_key_file == tmp_path / "key"


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["act", "90s", "http://h", "vllm", "off", "9" * 500 + "s", "http://[", "a"])
)
KEYS = st.sampled_from(
    [
        "backends",
        "name",
        "url",
        "wait",
        "restart",
        "command",
        "exporter",
        "interval",
        "timeout",
        "answer_every",
        "remediator",
        "mode",
        "token_file",
        "database",
        "defaults",
        "discovery",
        "files",
        "dns",
        "names",
        "port",
        "resolver",
        "fleet_restarts",
    ]
) | st.text(max_size=5)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


def settings_or_sentences(text: str) -> None:
    try:
        sentences: tuple[str, ...] = ()
        assert isinstance(parse(text, FILE), Settings)
    except SettingsError as error:
        sentences = error.problems or ("no sentence at all",)
    for sentence in sentences:
        assert sentence.startswith(f"{FILE}:")
        assert "\n" not in sentence


@settings(deadline=None, max_examples=120)
@given(st.dictionaries(KEYS, TREES, max_size=5))
def test_any_tree_is_either_valid_or_a_settings_error(tree: object) -> None:
    settings_or_sentences(yaml.safe_dump(tree))


@settings(deadline=None, max_examples=400)
@given(
    st.text(
        alphabet=st.sampled_from("abn0123456789:-.,_ \n\t[]{}&*!?|>'\"%@#<=TZ~\x85\ud7ff\ufeff")
        | st.characters(),
        max_size=60,
    )
)
def test_any_text_is_either_valid_or_a_settings_error(text: str) -> None:
    settings_or_sentences(text)


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(
        ["int", "float", "bool", "null", "timestamp", "binary", "set", "omap", "pairs"]
    ),
    st.text(alphabet="0123456789abxo:_-+.TZ ", max_size=12),
)
def test_any_tagged_value_is_either_valid_or_a_settings_error(tag: str, value: str) -> None:
    settings_or_sentences(f"backends: !!{tag} '{value}'")
