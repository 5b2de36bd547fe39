"""A request that another gateway has only just let go of is in its hand until that is booked.

So whoever comes with it at once, as a proxy does that tries the next gateway, is not told at once
that it is busy.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gateway.bill import Admission, Opened

SECONDS = (0.05, 0.1, 0.2, 0.4)


async def admitted(
    asked: Callable[[Opened], Awaitable[Admission]],
    opened: Opened,
    seconds: tuple[float, ...] = SECONDS,
) -> Admission:
    """What the bill says, once it no longer says busy or has said so for long enough.

    ``asked`` is ``Bill.admit`` or ``Bill.reopen``, and raises what they raise. ``seconds``: how
    long to wait after each time.
    """
    for patience in seconds:
        admission = await asked(opened)
        if admission is not Admission.BUSY:
            return admission
        await asyncio.sleep(patience)
    return await asked(opened)
