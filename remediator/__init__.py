"""Restarts a model server when an alert asks for it and the server is proven stuck."""
