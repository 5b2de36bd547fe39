"""What a roll-out does to those who are served meanwhile, with and without us."""
