"""One fleet out of the listed backends and what each source found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from exporter.discovery.target import Target, backend_of
from fleet.backend import Backend
from fleet.discovery import Source


@dataclass(frozen=True)
class Fleet:
    """Who is watched; how many of them each source gave, in its order; and what was left out.

    Invariant: no two backends have the same name, and no found one the name or URL of another.
    """

    backends: tuple[Backend, ...]
    found: tuple[int, ...]
    warnings: tuple[str, ...]


def merged(
    listed: Sequence[Backend], found: Iterable[tuple[Source, Sequence[Target]]], *, interval: float
) -> Fleet:
    """All backends: the listed ones, then each source's in order. Who is first with a name stays.

    ``interval`` is the poll interval in seconds: a target's own wait of less than two is raised.
    """
    backends = list(listed)
    names = {backend.name: f"{backend.name} of backends" for backend in listed}
    urls = {backend.url: f"{backend.name} of backends" for backend in listed}
    counts, warnings = [], []
    for source, targets in found:
        before = len(backends)
        for target in targets:
            backend = backend_of(target, source)
            if backend.wait < 2 * interval:
                warnings.append(
                    f"{source.name}: {backend.name}: a wait of {backend.wait:g}s is shorter than "
                    f"two poll intervals; {2 * interval:g}s is used"
                )
                backend = replace(backend, wait=2 * interval)
            first = names.get(backend.name) or urls.get(backend.url)
            if first is not None:
                what = "name" if backend.name in names else "URL"
                warnings.append(
                    f"{source.name}: {backend.name} at {backend.url} is left out: "
                    f"{first} has the same {what}"
                )
                continue
            names[backend.name] = urls[backend.url] = f"{backend.name} of {source.name}"
            backends.append(backend)
        counts.append(len(backends) - before)
    return Fleet(tuple(backends), tuple(counts), tuple(dict.fromkeys(warnings)))
