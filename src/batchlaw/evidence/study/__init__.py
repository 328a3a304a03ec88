"""Training comparisons: batch schedules at equal steps and samples, on data that are real."""
