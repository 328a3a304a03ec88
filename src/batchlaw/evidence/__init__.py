"""What the package shows for itself: experiments, claims, a training study, sweeps."""
