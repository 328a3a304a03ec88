"""What the words in results mean: one meaning each, in commands, the page and the documentation."""

from __future__ import annotations

# The meaning of excess, in the words that every interface uses.
EXCESS = "risk above that of the best predictor of the sketched model"

GLOSSARY = {
    "risk (total)": "The whole expected squared error on a new sample: label noise, approximation "
    "and excess.",
    "excess": f"The {EXCESS}: bias, variance, fluctuation and cross terms. Only it depends on the "
    "training.",
    "reducible risk": "The risk without the label noise: the excess and the approximation. The "
    "left side of the paper's theorems.",
    "noise": "The part of the excess that batches change: the variance of one pass, the "
    "fluctuation where data are reused.",
    "influence": "The share kappa_t of the noise of update t that survives in the final risk.",
    "square-root rule": "Batches in proportion to sqrt(kappa_t), not rounded and without limits: "
    "the best by influence. The `continuous` schedule is the same with batches of at least 1.",
    "oracle": "The square-root rule from the exact influence, with the paper's rounding.",
    "greedy": "The best whole batches by influence under the given limits.",
    "optimum": "The batches that minimise the exact variance, with a certificate: "
    "`bl.optimal_batches`.",
    "planned": "The best few stages of constant batches by influence.",
    "constant": "The same batch at every update, at an equal sum.",
}
