"""Run many computations and store their results in one file. No mathematics."""
