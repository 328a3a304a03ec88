"""How much of each update's noise survives in the final risk."""
