"""The regression problem, and the spectra that can stand in for it."""
