"""Plans for a training run: made, checked, and written for a trainer."""
