"""file_sd files in Prometheus' format: what is read, and the sentence for each mistake."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.discovery.groups import GroupsError, targets_in
from exporter.discovery.target import Target
from fleet.backend import Kind

NOT_HOST_PORT = "is not host:port"


def in_yaml(text: str) -> tuple[Target, ...]:
    return targets_in(text, is_json=False)


def in_json(tree: object) -> tuple[Target, ...]:
    return targets_in(json.dumps(tree), is_json=True)


READ = {
    "no groups": ([], ()),
    "a group of nobody": ([{}], ()),
    "a group without labels": (
        [{"targets": ["10.0.0.11:8000", "gpu-b"]}],
        (Target("10.0.0.11", 8000), Target("gpu-b")),
    ),
    "two groups": (
        [{"targets": ["a:1"]}, {"targets": ["b:2"], "labels": {}}],
        (Target("a", 1), Target("b", 2)),
    ),
    "IPv6": (
        [{"targets": ["[2001:DB8::1]:8000", "[::1]"]}],
        (Target("2001:db8::1", 8000), Target("::1")),
    ),
    "labels that are ours": (
        [
            {
                "targets": ["a:1"],
                "labels": {
                    "backend": "gpu-a",
                    "__scheme__": "https",
                    "__lifeguard_kind__": "proxy",
                    "__lifeguard_wait__": "3m",
                },
            }
        ],
        (Target("a", 1, name="gpu-a", scheme="https", kind=Kind.PROXY, wait=180.0),),
    ),
    "labels that are somebody else's": (
        [{"targets": ["a:1"], "labels": {"job": "vllm", "__metrics_path__": "/m", "kind": "x"}}],
        (Target("a", 1),),
    ),
    "a name for nobody": ([{"targets": [], "labels": {"backend": "gpu-a"}}], ()),
}


@pytest.mark.parametrize(("tree", "targets"), READ.values(), ids=READ)
def test_a_file_is_read_alike_in_json_and_yaml(tree: object, targets: tuple[Target, ...]) -> None:
    assert in_json(tree) == targets
    assert in_yaml(yaml.safe_dump(tree)) == targets


def test_yaml_scalars_are_text_as_prometheus_reads_them() -> None:
    text = "- targets: [a:1]\n  labels: {backend: 7, rack: 12, spare: yes, since: 2024-01-01}"
    assert in_yaml(text) == (Target("a", 1, name="7"),)


MISTAKES = {
    "an empty file": ("", ": is not a list of target groups"),
    "a mapping": ("{targets: [a]}", ": is not a list of target groups"),
    "a group that is text": ("[a:1]", ": [0]: 'a:1' is not a mapping"),
    "targets that are text": ("[{targets: a:1}]", ": [0].targets: 'a:1' is not a list"),
    "a misspelt key": (
        "[{target: [a:1]}]",
        ": [0].target: is not a setting (did you mean 'targets'?)",
    ),
    "a url for a target": (
        "[{targets: [a:1, 'http://b:2']}]",
        f": [0].targets[1]: 'http://b:2' {NOT_HOST_PORT}",
    ),
    "a path behind a target": ("[{targets: [a/b]}]", f": [0].targets[0]: 'a/b' {NOT_HOST_PORT}"),
    "a user before a target": (
        "[{targets: ['u:p@a']}]",
        f": [0].targets[0]: 'u:p@a' {NOT_HOST_PORT}",
    ),
    "a port that is none": ("[{targets: ['a:0']}]", f": [0].targets[0]: 'a:0' {NOT_HOST_PORT}"),
    "a port too high": (
        "[{targets: ['a:65536']}]",
        f": [0].targets[0]: 'a:65536' {NOT_HOST_PORT}",
    ),
    "a port that is a name": (
        "[{targets: ['a:http']}]",
        f": [0].targets[0]: 'a:http' {NOT_HOST_PORT}",
    ),
    "an empty target": ("[{targets: ['']}]", f": [0].targets[0]: '' {NOT_HOST_PORT}"),
    "a target with a line break": (
        '[{targets: ["a\\n"]}]',
        f": [0].targets[0]: 'a\\n' {NOT_HOST_PORT}",
    ),
    "IPv6 without brackets": (
        "[{targets: ['2001:db8::1']}]",
        f": [0].targets[0]: '2001:db8::1' {NOT_HOST_PORT}",
    ),
    "brackets around a name": (
        "[{targets: ['[a]:1']}]",
        f": [0].targets[0]: '[a]:1' {NOT_HOST_PORT}",
    ),
    "one name for two": (
        "[{targets: [a, b], labels: {backend: gpu-a}}]",
        ": [0].labels.backend: 'gpu-a' is the name of one backend, and the group has 2 targets",
    ),
    "a name that is none": (
        "[{targets: [a], labels: {backend: gpu a}}]",
        (
            ": [0].labels.backend: 'gpu a' is not a backend name (letters, digits, '_', '.', '-'; "
            "63 at most; the first a letter or digit)"
        ),
    ),
    "another scheme": (
        "[{targets: [a], labels: {__scheme__: ftp}}]",
        ": [0].labels.__scheme__: 'ftp' is not 'http' or 'https'",
    ),
    "a kind that there is not": (
        "[{targets: [a], labels: {__lifeguard_kind__: tgi}}]",
        ": [0].labels.__lifeguard_kind__: 'tgi' is not 'vllm' or 'proxy'",
    ),
    "a wait without a unit": (
        "[{targets: [a], labels: {__lifeguard_wait__: 90}}]",
        (": [0].labels.__lifeguard_wait__: '90' is not a duration such as 90s, 1m30s or 2h"),
    ),
    "YAML that does not end": (
        "[{targets: [a]}",
        ":1:16: is not valid YAML: expected ',' or ']', but got '<stream end>'",
    ),
    "a key that stands there twice": (
        "- targets: [a]\n  targets: [b]",
        ":2:3: is not valid YAML: the key 'targets' stands there twice",
    ),
}


@pytest.mark.parametrize(("text", "said"), MISTAKES.values(), ids=MISTAKES)
def test_each_mistake_has_its_sentence(text: str, said: str) -> None:
    with pytest.raises(GroupsError) as caught:
        in_yaml(text)
    assert str(caught.value) == said


JSON_MISTAKES = {
    "an empty file": ("", ":1:1: is not valid JSON: expecting value"),
    "half a file": ('[{"targets": ["a:1"', ":1:20: is not valid JSON: expecting ',' delimiter"),
    "null for a group": ("[null]", ": [0]: None is not a mapping"),
    "a number for a target": ('[{"targets": [8000]}]', ": [0].targets[0]: 8000 is not text"),
    "a number for a name": (
        '[{"targets": ["a"], "labels": {"backend": 7}}]',
        ": [0].labels.backend: 7 is not text",
    ),
    "a key that stands there twice": (
        '[{"targets": ["a"], "targets": ["b"]}]',
        ": is not valid JSON: the key 'targets' stands there twice",
    ),
    "brackets without an end": ("[" * 100_000, ": is not valid JSON: it is nested too deeply"),
}


@pytest.mark.parametrize(("text", "said"), JSON_MISTAKES.values(), ids=JSON_MISTAKES)
def test_each_mistake_in_json_has_its_sentence(text: str, said: str) -> None:
    with pytest.raises(GroupsError) as caught:
        targets_in(text, is_json=True)
    assert str(caught.value) == said


TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["a:1", "[::1]"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["targets", "labels", "backend", "__scheme__", "__lifeguard_wait__", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


def targets_or_one_sentence(text: str, *, is_json: bool) -> None:
    try:
        said = ":"
        assert isinstance(targets_in(text, is_json=is_json), tuple)
    except GroupsError as error:
        said = str(error)
    assert said.startswith(":")
    assert "\n" not in said


@settings(deadline=None, max_examples=150)
@given(st.lists(TREES, max_size=3) | TREES)
def test_any_tree_is_either_read_or_a_sentence(tree: object) -> None:
    targets_or_one_sentence(json.dumps(tree), is_json=True)
    targets_or_one_sentence(yaml.safe_dump(tree), is_json=False)


@settings(deadline=None, max_examples=150)
@given(
    st.text(alphabet=st.sampled_from('[]{}":,-ab01.\\ \nueE\ud800') | st.characters(), max_size=40)
)
def test_any_text_is_either_read_or_a_sentence(text: str) -> None:
    targets_or_one_sentence(text, is_json=True)
    targets_or_one_sentence(text, is_json=False)
