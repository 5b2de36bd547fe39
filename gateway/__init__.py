"""The gateway: a streaming relay in front of vLLM servers that goes on elsewhere when one goes.

The pure heart, no I/O and no clock:

    ask        what a client asked for, and the body for a backend, at first and later
    resumable  whether an interrupted answer may go on elsewhere: exact, best_effort or never
    frames     bytes of a backend to complete server-sent events
    shape      the fast path: frames of a known shape, told apart without decoding them
    edit       one frame's bytes with one thing changed
    cut        up to which token an answer can go on without a tokenizer
    stops      stop strings, searched here over all legs
    stream     one request over all its legs
    whole      the one JSON body for a client that did not stream
"""
