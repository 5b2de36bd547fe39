"""The rows of the gateway's dashboard."""
