"""fleet.yml, the one file all programs read: strict, into frozen values.

Every error names the file, the place in it and the value, in one sentence. Secrets are never in
the file itself: it names files that hold them.
"""

import difflib
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from fleet.backend import Backend, Kind, Restart


class SettingsError(Exception):
    """fleet.yml cannot be used; ``problems`` holds one sentence for each mistake."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Mode(StrEnum):
    """What the remediator does with a decision to restart."""

    ACT = "act"
    SHADOW = "shadow"


@dataclass(frozen=True)
class ExporterSettings:
    """How often and how patiently backends are read; all in seconds.

    ``answer_every`` is the shortest time between two short requests to one idle engine; None
    means that no request is ever sent.
    """

    interval: float
    timeout: float
    answer_every: float | None


@dataclass(frozen=True)
class RemediatorSettings:
    """What the remediator may do and how sure it must be; durations in seconds.

    ``confirm_for``: how long a backend is read directly, without a sign of life, before a restart.
    ``answer_within``: how long the short request sent in that time may stay unanswered.
    ``recheck_every``: how often an incident that is held is looked at again.
    ``cool_down``: the shortest time between two restarts of one backend.
    ``fleet_restarts`` in ``fleet_window``: the most restarts of all backends together.
    """

    mode: Mode
    token_file: Path
    database: str
    alertmanager: str
    confirm_for: float
    answer_within: float
    recheck_every: float
    cool_down: float
    fleet_restarts: int
    fleet_window: float


@dataclass(frozen=True)
class Settings:
    """All of fleet.yml. ``remediator`` is None where the file has no such section."""

    file: Path
    backends: tuple[Backend, ...]
    exporter: ExporterSettings
    remediator: RemediatorSettings | None

    def backend(self, name: str) -> Backend | None:
        """The backend of exactly this name, or None."""
        return next((backend for backend in self.backends if backend.name == name), None)


DURATION = re.compile(
    r"(?:(?P<w>\d+)w)?(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?"
    r"(?:(?P<s>\d+)s)?(?:(?P<ms>\d+)ms)?",
    re.ASCII,
)
# Longer than any sensible duration, and few enough digits for the arithmetic.
LONGEST_DURATION = 366 * 86400.0
MOST_DIGITS = 40
UNIT_SECONDS = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


def seconds(text: object) -> float:
    """Seconds of a duration as Prometheus writes it: ``90s``, ``1m30s``, ``2h``.

    Raises PydanticCustomError where it is none, is zero, or is longer than a year.
    """
    match = DURATION.fullmatch(text) if isinstance(text, str) and text else None
    if match is None:
        raise _wrong("is not a duration such as 90s, 1m30s or 2h")
    if len(match.string) > MOST_DIGITS:
        raise _wrong("is longer than a year")
    total = sum(int(value) * UNIT_SECONDS[unit] for unit, value in match.groupdict("0").items())
    if total <= 0:
        raise _wrong("is not longer than zero")
    if total > LONGEST_DURATION:
        raise _wrong("is longer than a year")
    return total


def _wrong(sentence: str) -> PydanticCustomError:
    return PydanticCustomError("lifeguard", "{sentence}", {"sentence": sentence})


def _http_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        raise _wrong("is not an http(s) URL") from None
    is_http = parts.scheme in ("http", "https") and parts.hostname and port_is_valid
    if not is_http or not text.isprintable() or " " in text:
        raise _wrong("is not an http(s) URL")
    if parts.username is not None or parts.password is not None:
        raise _wrong("has a user or password in it; put the key into a file (api_key_file)")
    if "?" in text or "#" in text:
        raise _wrong("has a query or fragment, which a base URL cannot have")
    return text.rstrip("/")


def _backend_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise _wrong(
            "is not a backend name (letters, digits, '_', '.', '-'; 63 at most; "
            "the first a letter or digit)"
        )
    return text


def _file_path(text: str) -> str:
    if not text or not text.isprintable():
        raise _wrong("is not the path of a file")
    return text


def _command(words: list[str]) -> list[str]:
    if not words or not words[0]:
        raise _wrong("names no program")
    return words


Seconds = Annotated[float, BeforeValidator(seconds)]
SecondsOrOff = Annotated[
    float | None, BeforeValidator(lambda value: None if value == "off" else seconds(value))
]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
FilePath = Annotated[str, AfterValidator(_file_path)]
BackendName = Annotated[str, AfterValidator(_backend_name)]


class _Section(BaseModel):
    # YAML reads `off` as False; a section that takes it says so in its validator.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Restart(_Section):
    command: Annotated[list[str], AfterValidator(_command)]
    timeout: Seconds = 120.0


class _Defaults(_Section):
    wait: Seconds = 90.0
    load_time: Seconds = 600.0


class _Backend(_Section):
    name: BackendName
    url: HttpUrl
    kind: Literal["vllm", "proxy"] = "vllm"
    wait: Seconds | None = None
    load_time: Seconds | None = None
    api_key_file: FilePath | None = None
    restart: _Restart | None = None


def _off(value: object) -> object:
    return "off" if value is False else value


class _Exporter(_Section):
    interval: Seconds = 15.0
    timeout: Seconds = 5.0
    answer_every: Annotated[SecondsOrOff, BeforeValidator(_off)] = 300.0


class _Remediator(_Section):
    mode: Literal["act", "shadow"]
    token_file: FilePath
    alertmanager: HttpUrl
    database: str = "sqlite:///remediator.db"
    confirm_for: Seconds = 15.0
    answer_within: Seconds = 30.0
    recheck_every: Seconds = 30.0
    cool_down: Seconds = 900.0
    fleet_restarts: Annotated[int, Field(ge=1)] = 3
    fleet_window: Seconds = 3600.0


class _Fleet(_Section):
    backends: Annotated[list[_Backend], Field(min_length=1)]
    defaults: _Defaults = _Defaults()
    exporter: _Exporter = _Exporter()
    remediator: _Remediator | None = None


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key that is written twice is a mistake, not an overwrite.

    What a merge (``<<: *defaults``) brings in may be overwritten: that is what merges are for.
    """

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:  # noqa: ANN401 -- PyYAML's
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.composer.ComposerError(
                        problem=f"the key {key.value!r} stands there twice",
                        problem_mark=key.start_mark,
                    )
                seen.add(key.value)
        return node


def load(file: Path) -> Settings:
    """Read fleet.yml. Raises SettingsError with one sentence for each mistake in it."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8 text"
        raise SettingsError((f"{file}: cannot be read: {reason}",)) from None
    return parse(text, file)


def parse(text: str, file: Path) -> Settings:
    """Settings of the text of a fleet.yml; ``file`` is named in errors and anchors paths.

    Raises SettingsError with one sentence for each mistake.
    """
    try:
        tree = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 -- a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise SettingsError((f"{file}{where}: is not valid YAML: {error.problem}",)) from None
    except yaml.YAMLError as error:
        raise SettingsError((f"{file}: is not valid YAML: {_one_line(error)}",)) from None
    except RecursionError:
        raise SettingsError((f"{file}: is not valid YAML: it is nested too deeply",)) from None
    except (ValueError, LookupError, AttributeError, ArithmeticError) as error:
        # PyYAML's own, on a date, number or tagged value that is none.
        raise SettingsError((f"{file}: is not valid YAML: {_one_line(error)}",)) from None
    if not isinstance(tree, dict):
        raise SettingsError((f"{file}: is not a mapping with a list of backends",))
    try:
        fleet = _Fleet.model_validate(tree)
    except ValidationError as error:
        raise SettingsError(tuple(f"{file}: {_sentence(e)}" for e in error.errors())) from None
    problems = tuple(f"{file}: {problem}" for problem in _contradictions(fleet))
    if problems:
        raise SettingsError(problems)
    return _settings(fleet, file)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _settings(fleet: _Fleet, file: Path) -> Settings:
    # Links are not followed: a ConfigMap's file leads into a folder that each update replaces.
    folder = file.absolute().parent
    remediator = fleet.remediator
    return Settings(
        file=file,
        backends=tuple(_one(entry, fleet.defaults, folder) for entry in fleet.backends),
        exporter=ExporterSettings(**fleet.exporter.model_dump()),
        remediator=None
        if remediator is None
        else RemediatorSettings(
            **remediator.model_dump(exclude={"mode", "token_file", "database"}),
            mode=Mode(remediator.mode),
            token_file=folder / remediator.token_file,
            database=_anchored(remediator.database, folder),
        ),
    )


def _one(entry: _Backend, defaults: _Defaults, folder: Path) -> Backend:
    return Backend(
        name=entry.name,
        url=entry.url,
        kind=Kind(entry.kind),
        wait=entry.wait or defaults.wait,
        load_time=entry.load_time or defaults.load_time,
        api_key_file=folder / entry.api_key_file if entry.api_key_file else None,
        restart=Restart(tuple(entry.restart.command), entry.restart.timeout)
        if entry.restart
        else None,
    )


def _anchored(database: str, folder: Path) -> str:
    """A relative SQLite file stands beside fleet.yml, wherever the program was started."""
    scheme, separator, path = database.partition(":///")
    if not separator or not scheme.startswith("sqlite") or not path or path.startswith(":"):
        return database
    return f"{scheme}:///{folder / path}"


def _contradictions(fleet: _Fleet) -> list[str]:
    """What is wrong between settings that are each valid."""
    problems = []
    first: dict[str, int] = {}
    for i, entry in enumerate(fleet.backends):
        if entry.name in first:
            problems.append(
                f"backends[{i}].name: {entry.name!r} is already the name of "
                f"backends[{first[entry.name]}]"
            )
        first.setdefault(entry.name, i)
        wait = entry.wait or fleet.defaults.wait
        if wait < 2 * fleet.exporter.interval:
            problems.append(
                f"backends[{i}].wait: {wait:g}s is shorter than two poll intervals "
                f"(exporter.interval is {fleet.exporter.interval:g}s); one wait must hold two reads"
            )
    if fleet.exporter.timeout > fleet.exporter.interval:
        problems.append(
            f"exporter.timeout: {fleet.exporter.timeout:g}s is longer than exporter.interval "
            f"({fleet.exporter.interval:g}s); one read must end before the next begins"
        )
    return problems


REQUIRED = {
    "mode": "is required: 'act' restarts what is proven stuck, 'shadow' decides and records the "
    "same but restarts nothing",
    "backends": "is required: a list of backends, each with a name and a url",
    "token_file": "is required: the file with the bearer token that Alertmanager sends",
    "alertmanager": "is required: the URL of Alertmanager, asked for silences before a restart",
}

WRONG_TYPES = {
    "model_type": "is not a mapping",
    "list_type": "is not a list",
    "string_type": "is not text",
    "int_type": "is not a whole number",
}


def _sentence(error: ErrorDetails) -> str:
    """One mistake as ``place: value what is wrong with it``."""
    place = "".join(map(_step, error["loc"])).removeprefix(".")
    value = error["input"]
    match error["type"]:
        case "missing":
            return f"{place}: {REQUIRED.get(str(error['loc'][-1]), 'is required')}"
        case "extra_forbidden" | "invalid_key":
            return f"{place}: is not a setting{_did_you_mean(error['loc'])}"
        case "literal_error":
            return f"{place}: {_shown(value)} is not {error['ctx']['expected']}"
        case "lifeguard":
            return f"{place}: {_shown(value)} {error['msg']}"
        case kind:
            otherwise = f"is wrong: {error['msg'][0].lower()}{error['msg'][1:]}"
            return f"{place}: {_shown(value)} {WRONG_TYPES.get(kind, otherwise)}"


def _step(part: int | str) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.isprintable() else f".{part!r}"


def _shown(value: object) -> str:
    """The value as an error may show it: short, and without what may be secret in a URL."""
    text = re.sub(r"//.*@", "//***@", repr(value))
    text = re.sub(r"(//[^?#]*[?#]).*(?=\W)", r"\1***", text)
    return text if len(text) <= 80 else text[:77] + "..."  # noqa: PLR2004


def _did_you_mean(place: tuple[int | str, ...]) -> str:
    """`` (did you mean 'wait'?)`` where a known setting of that section is spelt alike."""
    model: Any = _Fleet
    for part in place[:-1]:
        if isinstance(part, str):
            model = {
                "backends": _Backend,
                "restart": _Restart,
                "defaults": _Defaults,
                "exporter": _Exporter,
                "remediator": _Remediator,
            }[part]
    close = difflib.get_close_matches(str(place[-1]), model.model_fields, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
