"""The report as one JSON document. Times are RFC 3339 in UTC, durations are in seconds."""

from datetime import UTC, datetime
from typing import Any

from exporter.backtest.episode import Episode
from exporter.backtest.limits import limits
from exporter.backtest.report import Report, TargetReport


def document(report: Report) -> dict[str, Any]:
    """The whole report."""
    longest = report.longest
    return {
        "prometheus": report.prometheus,
        "since": written(report.since),
        "until": written(report.until),
        "wait_seconds": report.wait,
        "hangs": [_episode(one, episode) for one, episode in report.episodes],
        "targets": [_target(one) for one in report.targets],
        "summary": {
            "targets": len(report.targets),
            "engine_hours": round(report.engine_hours, 3),
            "would_be_restarts": report.restarts,
            "ended": {str(end): count for end, count in report.ends.items()},
            "longest_healed_silence_seconds": None if longest is None else longest[1].seconds,
            "suggested_wait_seconds": report.suggested_wait,
        },
        "limits": limits(report),
    }


def written(at: float) -> str:
    """Unix seconds as people read them, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _episode(one: TargetReport, episode: Episode) -> dict[str, Any]:
    return {
        "target": dict(one.target.labels),
        "engine": episode.engine,
        "silent_since": written(episode.silent_since),
        "proven_at": written(episode.proven_at),
        "quiet_seconds": round(episode.quiet, 3),
        "why": episode.why,
        "end": episode.end,
        "ended_at": written(episode.ended_at),
        "silence_seconds": round(episode.silence, 3),
        "after_proof_seconds": round(episode.after_proof, 3),
        "how": episode.how,
    }


def _target(one: TargetReport) -> dict[str, Any]:
    watched = one.watched
    healed = watched.longest
    return {
        "target": dict(one.target.labels),
        "first_look": None if watched.first is None else written(watched.first),
        "last_look": None if watched.last is None else written(watched.last),
        "scrape_interval_seconds": one.interval,
        "engines": sorted(watched.engines),
        "engine_hours": round(watched.engine_seconds / 3600, 3),
        "failed_scrapes": watched.failed,
        "restarts_seen": watched.history.restarts,
        "longest_healed_silence": None
        if healed is None
        else {
            "engine": healed.engine,
            "seconds": round(healed.seconds, 3),
            "known_to_seconds": healed.interval,
            "ended_at": written(healed.ended_at),
        },
        "suggested_wait_seconds": one.suggested_wait,
    }
