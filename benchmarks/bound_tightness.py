"""How tight every bound of the appendix is at the paper's instance: the table of docs/bounds.md.

    .venv/bin/python benchmarks/bound_tightness.py

One-pass: N = 512, T = 64, gamma = 0.05, the paper's constant batches. Multi-pass: L = 512, budget
4096, one dataset for the fluctuation and 8 for gradient descent. About 20 seconds.
"""

import numpy as np

import batchlaw as bl
from batchlaw import bounds
from batchlaw.problem import _paper_draws
from batchlaw.spectrum import power_law

A, B, DIM, M, N, T, L, GAMMA = 2.0, 1.5, 10_000, 64, 512, 64, 512, 0.05
BATCHES = 4096 // L


def ambient():
    """lambda, S and w* of the paper's instance."""
    target, sketch = np.empty(DIM), np.empty((M, DIM))
    for first, w, columns in _paper_draws(123, DIM, M, A, B):
        target[first - 1 : first - 1 + w.size] = w
        sketch[:, first - 1 : first - 1 + w.size] = columns.T
    return power_law(A, 1, DIM), sketch, target


def dense_fluctuation(problem, features, rates, rho, labels=None):
    """Exact fluctuation given the data, or averaged over the labels where there are none."""
    samples, size = features.shape
    mu, u = problem.eigenvalues, problem.optimum
    Sigma_hat = features.T @ features / samples
    C, theta = np.zeros((size, size)), np.zeros(size)
    shrink, gain = np.eye(size), np.zeros((size, size))
    for rate, factor in zip(rates, rho, strict=True):
        if labels is None:
            mean = features @ shrink @ u
            W = 2.0 * gain - gain @ Sigma_hat @ gain
            hits = np.einsum("ij,ij->i", features @ W, features) / samples
            square = mean**2 + problem.noise_variance * (1.0 - hits)
            q = features.T @ mean / samples
            qq = np.outer(q, q) + problem.noise_variance * shrink @ Sigma_hat @ shrink / samples
        else:
            residual = labels - features @ theta
            square = residual**2
            q = features.T @ residual / samples
            qq = np.outer(q, q)
            theta = theta + rate * q
        square = square + np.einsum("ij,ij->i", features @ C, features)
        source = (
            (features * square[:, None]).T @ features / samples - qq - Sigma_hat @ C @ Sigma_hat
        )
        step = np.eye(size) - rate * Sigma_hat
        C = step @ C @ step + rate**2 * factor * source
        gain = gain @ step + rate * np.eye(size)
        shrink = shrink @ step
    return float(mu @ np.diag(C))


def main():
    problem = bl.Problem.paper()
    lam, sketch, target = ambient()
    energies = power_law(B - A, 1, DIM)
    mu = problem.eigenvalues
    Sigma = (sketch * lam) @ sketch.T
    basis = np.linalg.eigh(Sigma)[1][:, ::-1]
    one, many = bl.wsd(T, GAMMA), bl.wsd(L, GAMMA)
    constant = np.full(T, N // T)
    reuse = np.full(L, BATCHES)
    rho = (N - reuse) / (reuse * (N - 1.0))
    features, labels = problem.sample(N, 0)
    sets = np.array([problem.sample(N, seed)[0] for seed in range(8)])
    rotated = sets @ basis.T
    given = dense_fluctuation(problem, features, many, rho, labels)
    mean = dense_fluctuation(problem, features, many, rho)
    data = (features, labels)
    heads = range(M // 3 + 1)

    found = [
        bounds.wsd_mass(T, GAMMA),
        bounds.wsd_decay_mass(T, GAMMA),
        bounds.product_calculus(mu, one),
        bounds.effective_batch_range(problem, one, bl.allocate(bl.influence(mu, one), N)),
        bounds.influence_shape(mu, one, A),
        bounds.largest_norm(mu, sets),
        bounds.approximation_upper(lam, sketch, target),
        bounds.tightest(
            lambda k: bounds.approximation_upper(lam, sketch, target, k), range(M // 2 + 1)
        ),
        bounds.approximation_spectral(lam, sketch, target),
        bounds.expected_approximation(lam, sketch, energies),
        bounds.approximation_order(lam, sketch, B),
        bounds.gd_bias_upper(lam, sketch, target, many, rotated),
        bounds.tightest(
            lambda k: bounds.gd_bias_upper(lam, sketch, target, many, rotated[:1], k), heads
        ),
        bounds.gd_bias_order(lam, sketch, target, many, rotated),
        bounds.gd_bias_lower(lam, sketch, energies, many, rotated),
        bounds.gd_variance(mu, many, sets),
        bounds.gd_variance_order(mu, many, sets),
        bounds.gd_variance_spectral(mu, many, sets),
        bounds.one_pass_bias_simple(problem, one),
        bounds.one_pass_bias_upper(lam, sketch, target, one),
        bounds.tightest(lambda k: bounds.one_pass_bias_upper(lam, sketch, target, one, k), heads),
        bounds.one_pass_bias_upper(lam, sketch, target, one, as_printed=True),
        bounds.one_pass_bias_lower(lam, sketch, energies, one),
        bounds.one_pass_bias_lower(lam, sketch, energies, one, cutoff=False),
        bounds.residual_covariance(problem),
        *bounds.uniform_covariance(problem, one, constant),
        bounds.additive_noise(problem, one, constant),
        bounds.additive_noise(problem, one, constant, sharp=True),
        bounds.covariance_fluctuation(problem, one, constant),
        bounds.covariance_fluctuation(problem, one, constant, sharp=True),
        bounds.raw_variance(problem, one, constant),
        bounds.wsd_kernel_mass(mu, T, GAMMA),
        bounds.power_law_kernel_mass(mu, A, T, GAMMA),
        bounds.batch_covariance(problem, data, many),
        bounds.transition_covariance(features),
        bounds.lower_covariance_factor(features, many),
        bounds.kernel_comparison(mu, features, many, A),
        bounds.cross_kernel_comparison(mu, features, many, A),
        bounds.wsd_kernel_mass(mu, L, GAMMA),
        bounds.power_law_kernel_mass(mu, A, L, GAMMA),
        bounds.conditional_fluctuation(problem, data, many, reuse, given),
        bounds.conditional_fluctuation(problem, data, many, reuse, given, form="printed"),
        bounds.conditional_fluctuation(problem, data, many, reuse, given, form="sharp"),
        bounds.expected_fluctuation(problem, features, many, reuse, mean),
        bounds.fluctuation_order(problem, data, many, reuse, A, given),
        bounds.covariance_replacement(mu, sets, 1.0 / many.sum()),
        bounds.regularized_comparison(mu, sets, 1.0 / many.sum()),
        bounds.tail_concentration(lam, sketch, M // 2),
        bounds.head_concentration(lam, sketch, 4),
        bounds.head_concentration(lam, sketch, 4, as_printed=True),
        bounds.head_tail_comparison(lam, sketch, 4),
        bounds.head_tail_resolvent(lam, sketch),
        bounds.tail_spectral_ratio(lam, sketch, M // 3),
        bounds.power_law_spectrum(mu, A),
    ]
    print("| bound | where | lower | value | upper | value/lower | value/upper | hypotheses |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for bound in found:
        print(row(bound))
    factors = bounds.leave_one_out(problem, data, many, A)
    print(
        f"\nsigma_xi^2 R_p / F_mp = {factors.noise_ceiling * factors.replacement / factors.total:.3f}"
    )
    print(factors)


def row(bound):
    sides = [
        f"{np.min(x):.4g}" if np.min(x) == np.max(x) else f"{np.min(x):.3g}..{np.max(x):.3g}"
        for x in (bound.lower, bound.value, bound.upper)
    ]
    ratios = [f"{x:.3g}" for x in bound.tightness]
    state = (
        "hold"
        if bound.holds
        else "; ".join(
            f"fails: {c.name} ({c.measured:.3g} against {c.limit:.3g})" for c in bound.failed
        )
    )
    mark = "" if bound.constant_explicit else " (no constant)"
    inside = "" if bound.inside or not bound.constant_explicit else " OUTSIDE"
    cells = [bound.name + mark, bound.where, *sides, *ratios, state + inside]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
