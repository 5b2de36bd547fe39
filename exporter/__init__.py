"""Reads vLLM backends at a fixed interval and publishes what it makes of them as metrics."""
