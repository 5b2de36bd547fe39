"""One module a dashboard; each has a function ``dashboard()``."""
