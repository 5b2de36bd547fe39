"""The states a backend or an engine can be in: one closed set, the values of the state label."""

from enum import StrEnum


class State(StrEnum):
    """What lifeguard says of a backend or an engine. Only STUCK and ENGINE_DEAD call for a restart.

    IDLE: nothing running or waiting. BUSY: work is pending, and it moves or has not been silent
    for long. QUIET: pending and silent for one wait. STUCK: for two waits. STARVED: no work done
    for four waits although the engine lives. RESTARTED: another process than at the last reading.
    SLEEPING, PAUSED, STARTING: does no work on purpose, or not yet. NO_METRICS: a page without
    vLLM's metrics. PROXY: declared one. BEHIND_PROXY: answers come from several processes.
    UNRESPONSIVE: no answer in time. ENGINE_DEAD: /health says so. DOWN: nothing serves there.
    UNKNOWN: cannot be judged, which never restarts anything.
    """

    IDLE = "idle"
    BUSY = "busy"
    QUIET = "quiet"
    STUCK = "stuck"
    STARVED = "starved"
    RESTARTED = "restarted"
    SLEEPING = "sleeping"
    PAUSED = "paused"
    STARTING = "starting"
    NO_METRICS = "no_metrics"
    PROXY = "proxy"
    BEHIND_PROXY = "behind_proxy"
    UNRESPONSIVE = "unresponsive"
    ENGINE_DEAD = "engine_dead"
    DOWN = "down"
    UNKNOWN = "unknown"
