"""Pages of a real vLLM 0.32.0, and the shape of any page."""

import platform
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"


def recorded_page(scenario: str, number: int = 0) -> str:
    """The page as this Python would have written it: python_info tells who did."""
    text = (RECORDINGS / scenario / f"{number:02}.prom").read_text()
    implementation = platform.python_implementation()
    major, minor, patch = platform.python_version_tuple()
    info = (
        f'python_info{{implementation="{implementation}",major="{major}",minor="{minor}",'
        f'patchlevel="{patch}",version="{platform.python_version()}"}} 1.0'
    )
    return re.sub(r"^python_info\{.*$", info, text, flags=re.MULTILINE)


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
