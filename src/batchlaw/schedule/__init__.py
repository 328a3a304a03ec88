"""Learning rates and update rules: what happens at every step, independent of the problem."""
