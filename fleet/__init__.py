"""What the exporter, the remediator and the gateway all know about a backend."""

__version__ = "0.1.0"
