"""vllm-exporter backtest: what the exporter would have said of series that Prometheus has kept."""
