"""Sweeps: many cells, each computed once, with results that survive a kill and runs that resume."""
