"""Which series belong together, and how they are asked for."""

import pytest

from exporter.backtest.target import Target, page_labels

OWN = {"instance": "10.0.0.1:8000", "job": "vllm"}
WRITTEN = {"engine": "1", "model_name": "m", "reason": "capacity"}


def test_labels_that_vllm_writes_are_not_the_targets() -> None:
    assert Target.of({"__name__": "vllm:x", **OWN, **WRITTEN}) == Target.of({**OWN})


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        (OWN, "vllm/10.0.0.1:8000"),
        ({"instance": "a:1"}, "a:1"),
        ({"pod": "a", "zone": 'b"c'}, r'{pod="a",zone="b\"c"}'),
    ],
    ids=["job and instance", "an instance alone", "neither: all labels"],
)
def test_a_target_has_a_name_for_people(labels: dict[str, str], name: str) -> None:
    assert Target.of(labels).name == name


def test_a_selector_asks_for_names_and_all_labels() -> None:
    selector = Target.of({**OWN, "pod": 'back\\slash "quoted"\nline'}).selector({"up", "vllm:a"})
    assert selector == (
        '{__name__=~"up|vllm:a",instance="10.0.0.1:8000",job="vllm",'
        r'pod="back\\slash \"quoted\"\nline"}'
    )


def test_a_label_of_the_page_that_gave_way_to_the_targets_is_read_as_the_page_had_it() -> None:
    """honor_labels: false renames it where relabelling gave the target one of that name."""
    series = {**OWN, "engine": "blue", "exported_engine": "1", "model_name": "m"}
    assert page_labels(series) == {"engine": "1", "model_name": "m"}
    assert Target.of(series) == Target.of({**OWN, "engine": "blue"}) == Target.of(OWN)
