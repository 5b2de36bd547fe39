"""The bill: what was delivered to whom, right even after the program was killed."""
