"""Many computations into one file of results: a store, workers, execution. No mathematics."""
