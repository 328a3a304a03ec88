"""Experiments on the package itself: the paper's, its claims, a training study, and sweeps."""
