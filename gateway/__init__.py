"""The draining, resuming, billing relay in front of vLLM servers."""
