"""From a mistake in fleet.yml to one sentence: the place, the value, and what is wrong with it."""

import difflib
import re
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from fleet.schema import (
    BackendSection,
    BasicAuthSection,
    DefaultsSection,
    DiscoverySection,
    DnsSection,
    DockerSection,
    ExporterSection,
    FleetFile,
    GatewaySection,
    KubernetesSection,
    RemediatorSection,
    RestartSection,
    SystemdSection,
    TlsSection,
)

REQUIRED = {
    "mode": "is required: 'act' restarts what is proven stuck, 'shadow' decides and records the "
    "same but restarts nothing",
    "names": "is required: a list of the DNS names to look up",
    "admin_token_file": "is required: the file with the bearer token of the admin API",
    "alertmanager": "is required: the URL of Alertmanager, asked for silences before a restart",
}

SECTIONS: dict[str, type[BaseModel]] = {
    "backends": BackendSection,
    "restart": RestartSection,
    "systemd": SystemdSection,
    "docker": DockerSection,
    "kubernetes": KubernetesSection,
    "defaults": DefaultsSection,
    "discovery": DiscoverySection,
    "dns": DnsSection,
    "exporter": ExporterSection,
    "remediator": RemediatorSection,
    "basic_auth": BasicAuthSection,
    "tls": TlsSection,
    "gateway": GatewaySection,
}

WRONG_TYPES = {
    "model_type": "is not a mapping",
    "list_type": "is not a list",
    "string_type": "is not text",
    "int_type": "is not a whole number",
    "float_type": "is not a number",
    "bool_type": "is not true or false",
}


def sentence(error: ErrorDetails, file: type[BaseModel] = FleetFile) -> str:
    """One mistake as ``place: value what is wrong with it``; ``file`` is the model of the whole."""
    place = "".join(map(_step, error["loc"])).removeprefix(".")
    value = error["input"]
    match error["type"]:
        case "missing":
            return f"{place}: {REQUIRED.get(str(error['loc'][-1]), 'is required')}"
        case "extra_forbidden" | "invalid_key":
            return f"{place}: is not a setting{_did_you_mean(error['loc'], file)}"
        case "literal_error":
            return f"{place}: {shown(value)} is not {error['ctx']['expected']}"
        case "lifeguard":
            return f"{place}: {shown(value)} {error['msg']}"
        case kind:
            otherwise = f"is wrong: {error['msg'][0].lower()}{error['msg'][1:]}"
            return f"{place}: {shown(value)} {WRONG_TYPES.get(kind, otherwise)}"


def _step(part: int | str) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.isprintable() else f".{part!r}"


def shown(value: object) -> str:
    """A value as an error may show it: short, and without what may be secret in a URL."""
    text = re.sub(r"//.*@", "//***@", repr(value))
    text = re.sub(r"(//[^?#]*[?#]).*(?=\W)", r"\1***", text)
    return text if len(text) <= 80 else text[:77] + "..."  # noqa: PLR2004


def _did_you_mean(place: tuple[int | str, ...], file: type[BaseModel]) -> str:
    """`` (did you mean 'wait'?)`` where a known setting of that section is spelt alike."""
    model: Any = file
    for part in place[:-1]:
        if isinstance(part, str):
            model = SECTIONS[part]
    close = difflib.get_close_matches(str(place[-1]), model.model_fields, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
