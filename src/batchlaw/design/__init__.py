"""Whole settings, and the choices of batches, run length and rate that are best for them."""
