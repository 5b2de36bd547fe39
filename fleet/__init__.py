"""What the exporter, the remediator and the gateway share: a backend, flags, a place to listen."""

__version__ = "0.1.0"
