"""SIGKILL at every step of the remediator's work: what is done twice, and what is lost."""
