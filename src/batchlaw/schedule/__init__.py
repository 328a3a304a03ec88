"""Learning rates and update rules: what happens at every step, whatever the problem is."""
