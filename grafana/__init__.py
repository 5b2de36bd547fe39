"""Dashboards as code: built by ``python -m grafana.build`` into ``grafana/built``."""
