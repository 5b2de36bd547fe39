"""Expressions and legends that several rows share."""

BACKEND = 'backend=~"$backend"'
MODEL = 'model=~"$model"'
ENGINE = "{{backend}} engine {{engine}}"
WAIT = f"max by (backend) (vllm_backend_wait_seconds{{{BACKEND}}})"
