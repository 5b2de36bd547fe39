"""The rows of the dashboard, one module a question; each adds itself to a builder."""
