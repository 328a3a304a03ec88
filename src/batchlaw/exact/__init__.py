"""Exact risks, and approximations that say so: no Monte Carlo. One file a procedure."""
