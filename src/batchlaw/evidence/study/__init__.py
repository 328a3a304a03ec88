"""Training comparisons: batch schedules at equal steps and samples, on real data."""
