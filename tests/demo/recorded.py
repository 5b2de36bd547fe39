"""Pages of a real vLLM 0.32.0, and the shape of any page."""

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"


def recorded_page(scenario: str, number: int = 0) -> str:
    return (RECORDINGS / scenario / f"{number:02}.prom").read_text()


def outline(text: str) -> list[str]:
    """All lines in order, without the values."""
    return [line if line.startswith("#") else line.rpartition(" ")[0] for line in text.splitlines()]


def series(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What the official parser makes of a page."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def families(text: str) -> dict[str, tuple[str, str]]:
    return {
        family.name: (family.type, family.documentation)
        for family in text_string_to_metric_families(text)
    }


def engine_value(text: str, name: str, engine: str = "0", **labels: str) -> float | None:
    wanted = {"engine": engine, "model_name": "tiny", **labels}
    return series(text).get((f"vllm:{name}", tuple(sorted(wanted.items()))))
