"""A simulated vLLM 0.32 server that can freeze, die, prefill for minutes and be restarted.

It publishes what a real server publishes, when a real one would: the same ``/metrics`` page, and
gauges and counters that only steps of the engine write. It computes nothing; tokens come from a
hash of all the ids before them, so the same ids always go on with the same ids.

Command line
============

``python -m demo.vllm [--host 127.0.0.1] [--port 8000] [--model tiny] ...``

==============================  ===========  ====================================================
option                          default      meaning
==============================  ===========  ====================================================
``--host`` ``--port``           127.0.0.1    port 0: the system chooses; see the ready line
                                8000
``--model``                     tiny         name served and label ``model_name``
``--max-num-seqs``              4            requests running at once, per engine
``--max-num-batched-tokens``    1024         tokens per step (the prefill chunk)
``--max-model-len``             32768        prompt plus output, tokens
``--block-size``                128          tokens per KV block
``--num-gpu-blocks-override``   1024         KV blocks; one of them is never used, as in vLLM
``--steps-per-second``          20           pace of steps that decode only
``--prefill-tokens-per-second`` 800          added to a step: its prompt tokens / this, seconds
``--data-parallel-size``        1            engines "0".."N-1"; more than 1 implies multiprocess
``--multiprocess``              off          page as with ``--api-server-count 2``
``--load-seconds``              0            the port opens this long after the start
==============================  ===========  ====================================================

stdout: one line when the port is open, ``ready url=http://127.0.0.1:8000 pid=4711``.
stderr: one line ``event=... key=value ...`` per start, fault and end.
Exit status: 0 after SIGTERM, SIGINT or the death of the engine (as vLLM), 1 when the port cannot be
had, 2 for a bad command line.

HTTP, as vLLM
=============

``GET /metrics``              full page (the query is ignored, as in vLLM)
``GET /metrics/?name[]=A&...``  only these samples; in multiprocess mode 200 with 0 bytes
``GET /health``               200, 503 once the engine is dead; the process exits 3 s after that
``GET /v1/models`` ``/version`` ``/ping`` ``/load``
``POST /v1/completions``      ``prompt``: text or token ids
``POST /v1/chat/completions`` ``messages``, or ids as ``kv_transfer_params.prompt_token_ids``
``POST /v1/embeddings``       ``input``: text, token ids, or a list of either

Generation understands ``model``, ``max_tokens``, ``max_completion_tokens``, ``stop_token_ids``,
``stream``, ``stream_options`` (``include_usage``, ``continuous_usage_stats``) and
``return_token_ids``. What would change the output and is not simulated (``stop``, ``n`` > 1,
``logprobs``, ``echo``, ``tools``, ``response_format``) is refused with 400; everything else is
ignored. The header ``X-data-parallel-rank`` chooses the engine. Errors:
``{"error": {"message", "type", "param", "code"}}``.

A frozen engine leaves streams hanging. A client that hangs up frees its slot. SIGTERM cuts open
streams without a closing frame. A dead engine ends streams with an error frame and ``[DONE]``.

Faults: POST /sim/NAME, a JSON object or no body, answered 200 with the new state
=================================================================================

==================  ==============================================  =============================
name                body                                            effect
==================  ==============================================  =============================
``/sim/freeze``     ``{"engine": 0}``; without it every engine      no step until thawed
``/sim/thaw``       the same                                        goes on where it stood
``/sim/die``        ``{}``                                          engine processes killed
``/sim/slow``       ``{"steps_per_second": 0.5}`` [``engine``]      another pace, also back
``/sim/prefill``    ``{"tokens": 24000}`` [``engine``]              one long prompt, one token out
``/sim/batch``      ``{"requests": 8, "max_tokens": 500}``          jobs held by no connection
                    [``prompt_tokens``: 16] [``engine``]
``/sim/mute``       ``{"seconds": 30}``                             API event loop busy: nothing
                                                                    but /sim/ answers; the engine
                                                                    goes on
==================  ==============================================  =============================

Unknown fault: 404; bad body: 400; each with ``{"error": "one sentence"}``.

``GET /sim/state``::

    {"model": "tiny", "pid": 4711, "start_time": 1796008595.5, "muted_seconds": 0.0,
     "engines": [{"engine": "0", "state": "alive" | "frozen" | "dead", "running": 2, "waiting": 1,
                  "unseen": 0, "steps": 812, "steps_per_second": 20.0, "kv_usage": 0.01,
                  "generation_tokens": 1500}],
     "requests": [{"path": "/metrics", "user_agent": "Prometheus/3.5", "count": 12}, ...]}

``running``, ``waiting`` are what the scheduler holds, ``unseen`` what arrived and no step has taken
in; the page shows what the engine last wrote. ``steps`` counts every step. ``requests`` counts
everything received, this request too, by path (without query) and User-Agent ("" if none).

Service: ``python -m demo.vllm.service start|stop|restart|status --dir DIR NAME [-- ARGS ...]``
==============================================================================================

Keeps ``DIR/NAME.pid``, ``DIR/NAME.json`` (the arguments) and ``DIR/NAME.log``. ``start`` and
``restart`` return at once, before the server is ready; both use the remembered arguments unless
new ones follow ``--``. ``stop``: SIGTERM to the process group, SIGKILL after 5 s.
Exit status: 0 done (status: it runs), 2 bad command line, 3 not running, 4 already running,
5 nothing known under this name, 6 could not be stopped, 7 files or process could not be made.

In a process of one's own: ``with demo.vllm.server.Server(settings) as server: server.url``.
The engine alone, under a clock of one's own: ``demo.vllm.engine.Engine``.
"""
