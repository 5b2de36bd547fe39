"""``vllm-remediator lint``: looks for everything else that could restart a vLLM server."""
