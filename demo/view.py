"""The demo on a terminal: the fleet, the alerts and the decisions, as they are now."""

from rich.console import Group
from rich.table import Table
from rich.text import Text

from demo.scene import Scene

STYLES = {
    "busy": "green",
    "idle": "green",
    "quiet": "yellow",
    "starved": "yellow",
    "restarted": "yellow",
    "unresponsive": "yellow",
    "stuck": "bold red",
    "engine_dead": "bold red",
    "down": "red",
    "restart": "bold",
    "hold": "yellow",
    "escalate": "bold red",
}
SHOWN = 7


def view(scene: Scene, seconds: float, act: str, said: list[str]) -> Group:
    """Everything to be seen at one moment, ``seconds`` after the beginning."""
    return Group(
        Text(f"vllm-lifeguard demo · {seconds:3.0f} s · {act}", style="bold"),
        _backends(scene),
        _alerts(scene),
        _decisions(scene),
        Text("\n".join(said[-SHOWN:]), style="dim"),
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", expand=True, box=None, padding=(0, 2, 0, 0))
    for column in columns[:-1]:
        table.add_column(column, no_wrap=True)
    table.add_column(columns[-1], ratio=1)
    return table


def _backends(scene: Scene) -> Table:
    table = _table("\nBackends", "backend", "state", "why")
    for backend in scene.backends:
        state = backend["state"]
        why = str(backend["why"]).partition(": ")[2]
        silenced = "  (silenced)" if backend["backend"] in scene.silenced else ""
        table.add_row(backend["backend"] + silenced, Text(state, STYLES.get(state, "")), why)
    return table


def _alerts(scene: Scene) -> Table:
    table = _table("\nAlerts", "alert", "backend", "state")
    for alert in scene.alerts:
        labels = alert["labels"]
        backend = labels.get("backend", "")
        silenced = " (silenced)" if backend in scene.silenced else ""
        table.add_row(labels["alertname"], backend, alert["state"] + silenced)
    return table


def _decisions(scene: Scene) -> Table:
    table = _table("\nDecisions", "backend", "decision", "reason", "why")
    for decision in scene.decisions[:SHOWN]:
        action = decision["action"]
        table.add_row(
            decision["backend"],
            Text(action, STYLES.get(action, "")),
            decision["reason"],
            decision["why"],
        )
    return table
