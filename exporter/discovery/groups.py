"""From the text of a file_sd file, in Prometheus' own format, to targets.

A file is read in full or not at all: one mistake in it, and all it said before goes on holding.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, ValidationError
from pydantic_core import PydanticCustomError

from exporter.discovery.target import NoAddressError, Target, address
from fleet import strict_yaml
from fleet.backend import Kind
from fleet.mistake import sentence
from fleet.schema import Section
from fleet.value import BackendName, Seconds


class GroupsError(Exception):
    """A file has mistakes; the first of them in one sentence, to be put behind the file's name."""


def _address(text: str) -> str:
    try:
        address(text)
    except NoAddressError:
        raise PydanticCustomError("lifeguard", "is not host:port") from None
    return text


class LabelsSection(BaseModel):
    """``[].labels``: those that say something to us. All others are somebody else's."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    backend: BackendName | None = None
    scheme: Annotated[Literal["http", "https"] | None, Field(alias="__scheme__")] = None
    kind: Annotated[Literal["vllm", "proxy"] | None, Field(alias="__lifeguard_kind__")] = None
    wait: Annotated[Seconds | None, Field(alias="__lifeguard_wait__")] = None


class GroupSection(Section):
    """One target group."""

    targets: list[Annotated[str, AfterValidator(_address)]] = Field(default_factory=list)
    labels: LabelsSection = LabelsSection()


class GroupsFile(RootModel[list[GroupSection]]):
    """The whole file."""


def targets_in(text: str, *, is_json: bool) -> tuple[Target, ...]:
    """The targets a file names, in its order. Raises GroupsError with one sentence."""
    tree = _json(text) if is_json else _yaml(text)
    if not isinstance(tree, list):
        raise GroupsError(": is not a list of target groups")
    try:
        groups = GroupsFile.model_validate(tree).root
    except ValidationError as error:
        raise GroupsError(f": {sentence(error.errors()[0], GroupSection)}") from None
    for i, group in enumerate(groups):
        if group.labels.backend is not None and len(group.targets) > 1:
            raise GroupsError(
                f": [{i}].labels.backend: {group.labels.backend!r} is the name of one backend, and "
                f"the group has {len(group.targets)} targets"
            )
    return tuple(_target(text, group.labels) for group in groups for text in group.targets)


def _target(text: str, labels: LabelsSection) -> Target:
    host, port = address(text)
    return Target(
        host,
        port,
        name=labels.backend,
        scheme=labels.scheme,
        kind=None if labels.kind is None else Kind(labels.kind),
        wait=labels.wait,
    )


def _yaml(text: str) -> object:
    try:
        return strict_yaml.tree(text, strict_yaml.Texts)
    except strict_yaml.YamlError as error:
        raise GroupsError(f"{error.where}: {error}") from None


def _json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_no_key_twice)
    except json.JSONDecodeError as error:
        reason = f"{error.msg[0].lower()}{error.msg[1:]}"
        raise GroupsError(f":{error.lineno}:{error.colno}: is not valid JSON: {reason}") from None
    except RecursionError:
        raise GroupsError(": is not valid JSON: it is nested too deeply") from None
    except ValueError as error:
        # A number of more digits than Python reads.
        raise GroupsError(f": is not valid JSON: {error}") from None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise GroupsError(f": is not valid JSON: the key {key!r} stands there twice")
        seen.add(key)
    return dict(pairs)
