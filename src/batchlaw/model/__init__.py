"""The regression problem, and the spectra that stand for it."""
