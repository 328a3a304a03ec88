"""The problems over which a plan for an unknown spectrum must hold.

The range was fixed before any run of its plans was trained, and is not changed by their results.
Its reasons:

- Spectrum exponents 1.2 to 2: measured Gauss-Newton and feature spectra of networks mostly lie
  there, and the paper's own instance is its upper end.
- Target exponents 1.3 and 1.7: the bias then falls with exponents (b - 1)/a from 0.15 to 0.58,
  which includes the exponents of published loss curves.
- Label noise of a quarter to four times the variance of the signal: noise must matter for batches
  to matter, and a run whose labels are almost free of noise says nothing about them.
- A peak rate of 1/4 to 2 times the one that is best for a constant batch: people tune the rate,
  and err towards small ones, because a large rate fails visibly.
- 4096 directions in a generic basis: enough that a run does not learn the last of them. The
  number then only scales the rate, which is chosen relative to the best one.
"""

from __future__ import annotations

EXPONENTS = (1.2, 1.5, 2.0)
TARGET_EXPONENTS = (1.3, 1.7)
# sigma^2 over the signal's variance.
NOISE_TO_SIGNAL = (0.25, 4.0)
# Peak rate over the best peak rate of a constant batch.
RATE_SCALES = (0.25, 0.5, 1.0, 2.0)
DIRECTIONS = 4096
