"""What the demo runs instead of the real thing: no GPU, no model, no download."""
