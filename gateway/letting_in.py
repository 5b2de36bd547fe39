"""Lets a request in, or says why not: one that another gateway has just refused may yet be its."""

import asyncio
from collections.abc import Awaitable, Callable

from gateway.bill import Admission, Opened
from gateway.errors import Refusal

# A gateway that has let go of a request needs a moment to book that.
BOOKING_SECONDS = (0.05, 0.1, 0.2, 0.4)


async def let_in(enter: Callable[[Opened], Awaitable[Admission]], opened: Opened) -> Admission:
    """What ``enter`` says, which is asked again for a while where the request is busy."""
    for patience in BOOKING_SECONDS:
        admission = await enter(opened)
        if admission is not Admission.BUSY:
            return admission
        await asyncio.sleep(patience)
    return await enter(opened)


def not_let_in(admission: Admission, key: str) -> Refusal:
    """What is said to one that is in somebody's hand, or was answered before."""
    if admission is Admission.BUSY:
        return Refusal(409, f"the request {key!r} of this caller is being answered", retry_after=1)
    return Refusal(409, f"the request {key!r} of this caller was answered before")
