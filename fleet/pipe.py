"""I/O: a command whose output somebody stops reading: ``vllm-gateway doctor FILES | head``."""

import os
import sys
from collections.abc import Callable

# As a shell tells of a program that ended by SIGPIPE.
NOBODY_READS = 141


def piped(command: Callable[[], int]) -> int:
    """Return a command's exit status, or 141 without a word where nobody reads what it prints.

    Source: https://docs.python.org/3/library/signal.html#note-on-sigpipe
    """
    try:
        status = command()
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again at the very end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    return status
