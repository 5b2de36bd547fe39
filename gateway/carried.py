"""A stream carried from one gateway to another: all that is needed to go on, out of it and in."""

import json
from collections.abc import Sequence

from gateway.ask import Route, ask
from gateway.outlet import Detail
from gateway.snapshot import Snapshot, again_at, place_at
from gateway.step import State
from gateway.stream import Stream


def snapshot(stream: Stream) -> Snapshot:
    """Return all that another gateway needs to go on."""
    onward, outlet = stream.onward, stream.outlet
    return Snapshot(
        route=stream.ask.route.value,
        body=dict(stream.ask.body),
        forbidden=stream.ask.forbidden,
        request_id=stream.request_id,
        created=stream.created,
        identity=stream.view.identity.decode(),
        prompt_ids=list(stream.prompt_ids),
        delivered=list(stream.delivered),
        prompt_tokens=stream.prompt_tokens,
        marks=list(outlet.marks),
        details=list(outlet.details),
        detailed=stream.detailed,
        opened=sorted(onward.opened),
        spoke=onward.spoke,
        never=onward.never,
        reasoned=onward.reasoned,
        again=onward.again,
    )


def restored(snapshot: Snapshot, at: int | None = None) -> Stream:
    """Return a stream as it was after one of its events, to go on with later() and begin().

    Without ``at``, after the last one. Raises NotAPlaceError where it cannot go on from there.
    """
    at = len(snapshot["marks"]) if at is None else at
    mark, details = place_at(snapshot, at)
    body = json.dumps(snapshot["body"]).encode()
    asked = ask(Route(snapshot["route"]), body, forbid_resume=snapshot["forbidden"])
    stream = Stream(asked, snapshot["request_id"], snapshot["created"])
    stream.delivered += snapshot["delivered"][:mark]
    stream.view.identity = snapshot["identity"].encode()
    stream.view.prompt_tokens = snapshot["prompt_tokens"]
    stream.onward.prompt_ids = list(snapshot["prompt_ids"])
    stream.onward.opened.update(snapshot["opened"] if at else ())
    stream.onward.spoke = snapshot["spoke"]
    stream.onward.never = snapshot["never"]
    stream.onward.reasoned = snapshot["reasoned"]
    stream.onward.again = again_at(snapshot, mark)
    stream.outlet.marks += snapshot["marks"][:at]
    stream.outlet.mark = mark
    stream.state = State.INTERRUPTED
    stream.why = "taken up from a snapshot"
    if details:
        _restore(stream, details)
    return stream


def _restore(stream: Stream, details: Sequence[Detail]) -> None:
    stream.outlet.details.extend(details)
    last = details[-1]
    stream.text_end = last.text_end
    if stream.answer.stops:
        stream.answer.stops.restore((last.tail, last.held))
    if last.finish_reason is not None:
        stream.ends_with(last.finish_reason)
        closing = sum(one.finish_reason is not None for one in details) - 1
        stream.usage_given = closing > 0
        stream.state = State.COMPLETE if closing > stream.ask.wants_usage else State.FINISHED
