"""The gateway: a streaming relay in front of vLLM servers that goes on elsewhere when one goes.

The pure heart, no I/O and no clock:

    ask          what a client asked for, and the bodies for backends because of it
    resumable    whether an interrupted answer may go on elsewhere: exact, best_effort or never
    frames       bytes of a backend to complete server-sent events
    said         what one frame says, decoded
    shape        the fast path: frames of a known shape, told apart without decoding them
    edit         one frame's bytes with one thing changed
    client_view  a frame as it is for a client that asked for less, and saw one server
    closing      frames of our own
    cut          up to which token an answer can go on, told without a tokenizer
    stops        stop strings, searched here over all legs
    answer       one answer's text and tokens, cut clean and searched
    onward       what the legs so far tell about the next one
    outlet       what goes to the client, numbered
    stream       one request over all its legs; step is what a piece came to
    snapshot     what another gateway needs to go on
    whole        the one JSON body for a client that did not stream
"""
