"""Write every dashboard as JSON into ``grafana/built``: ``python -m grafana.build``."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.dashboards import gateway, lifeguard

BUILT = Path(__file__).parent / "built"
DASHBOARDS: Mapping[str, Callable[[], Dashboard]] = {
    "gateway.json": gateway.dashboard,
    "lifeguard.json": lifeguard.dashboard,
}


def rendered(dashboard: Dashboard) -> str:
    """The text of a dashboard's file: keys sorted, so that a change shows as itself."""
    return json.dumps(dashboard, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def main() -> int:
    """Build all of them."""
    BUILT.mkdir(exist_ok=True)
    for name, dashboard in DASHBOARDS.items():
        (BUILT / name).write_text(rendered(dashboard()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
