"""``vllm-exporter check``: the whole judgement as a tool for one server, without configuration."""
