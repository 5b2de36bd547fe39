"""Backends that are found: in Prometheus' file_sd files and in DNS."""
