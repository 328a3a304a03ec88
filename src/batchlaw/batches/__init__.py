"""From influence to batch sizes, under the limits of a budget and a machine."""
