"""Measurements: each prints one table and, last, one line RESULT key=value."""
