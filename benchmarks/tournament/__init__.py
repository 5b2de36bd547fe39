"""Ways to find a hung vLLM server, against each other, on the same servers under a virtual clock.

Every method plays every server of the tournament alone: from the same seed, each in a world of its
own, in which its restarts have their consequences. What a method sees is what a server shows:
pages, ``/health``, answers to requests that it sends. What is true is known to the referee only.
"""
