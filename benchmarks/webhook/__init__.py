"""How soon a notification is acknowledged, on the real program."""
