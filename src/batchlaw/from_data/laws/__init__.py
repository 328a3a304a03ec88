"""Laws of whole loss curves, fitted to training runs: published ones, to compare with."""
