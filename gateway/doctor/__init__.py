"""``vllm-gateway doctor``: deploy files against the arithmetic of a drain."""
