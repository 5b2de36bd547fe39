"""What a person types: each command talks to a running remediator by its API."""
