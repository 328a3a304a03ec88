"""From influence to batch sizes, within a budget and the limits of a machine."""
