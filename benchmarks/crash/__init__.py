"""SIGKILL at every step of the remediator's work: is anything done twice, is anything lost?"""
