"""The risk of a run: exact, by a mean field, or simulated. One file per procedure."""
