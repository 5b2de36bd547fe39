"""What a look costs: ours, Prometheus' own scrape of the same pages, and a real vLLM's share."""
