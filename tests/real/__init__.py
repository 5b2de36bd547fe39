"""Tests against real servers: a real vLLM on a plain machine, no GPU, no download of a model."""
