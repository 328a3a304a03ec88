"""How tight every bound of the appendix is at the paper's instance: the table of docs/bounds.md.

    .venv/bin/python benchmarks/bound_tightness.py [--slips]

One-pass: N = 512, T = 64, gamma = 0.05, the paper's constant batches. Multi-pass: L = 512, budget
4096, one dataset for the fluctuation and 8 for gradient descent. About 40 seconds.
With --slips: the measurements behind the section on slips instead, about two minutes.
"""

import sys

import numpy as np

import batchlaw as bl
from batchlaw import bounds
from batchlaw.model.drawn_sketch import paper_draws
from batchlaw.model.power_law import power_law

A, B, DIM, M, N, T, L, GAMMA = 2.0, 1.5, 10_000, 64, 512, 64, 512, 0.05
BUDGET = 4096


def ambient():
    """lambda, S and w* of the paper's instance."""
    target, sketch = np.empty(DIM), np.empty((M, DIM))
    for first, w, columns in paper_draws(123, DIM, M, A, B):
        target[first - 1 : first - 1 + w.size] = w
        sketch[:, first - 1 : first - 1 + w.size] = columns.T
    return power_law(A, 1, DIM), sketch, target


def dense_fluctuation(problem, features, rates, rho, labels=None):
    """Exact fluctuation given the data, or averaged over the labels if none are given."""
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


def one_pass_bounds(problem):
    """Appendices A and H, and G in the eigenbasis: N = 512, T = 64."""
    mu, rates = problem.eigenvalues, bl.wsd(T, GAMMA)
    constant = np.full(T, N // T)
    yield bounds.wsd_mass(T, GAMMA)
    yield bounds.wsd_decay_mass(T, GAMMA)
    yield bounds.product_calculus(mu, rates)
    yield bounds.effective_batch_range(problem, rates, bl.allocate(bl.influence(mu, rates), N))
    yield bounds.influence_shape(mu, rates, A)
    yield bounds.one_pass_bias_simple(problem, rates)
    yield bounds.residual_covariance(problem)
    yield from bounds.uniform_covariance(problem, rates, constant)
    for sharp in (False, True):
        yield bounds.additive_noise(problem, rates, constant, sharp=sharp)
        yield bounds.covariance_fluctuation(problem, rates, constant, sharp=sharp)
    yield bounds.raw_variance(problem, rates, constant)
    yield bounds.wsd_kernel_mass(mu, T, GAMMA)
    yield bounds.power_law_kernel_mass(mu, A, T, GAMMA)


def ambient_bounds(problem):
    """Appendices C, D, G and the sketch's half of K; gradient descent with L = 512."""
    lam, sketch, w = ambient()
    energies = power_law(B - A, 1, DIM)
    one_pass, descent = bl.wsd(T, GAMMA), bl.wsd(L, GAMMA)
    basis = np.linalg.eigh((sketch * lam) @ sketch.T)[1][:, ::-1]
    data = datasets(problem) @ basis.T
    yield bounds.approximation_upper(lam, sketch, w)
    yield bounds.approximation_spectral(lam, sketch, w)
    yield bounds.expected_approximation(lam, sketch, energies)
    yield bounds.approximation_order(lam, sketch, B)
    yield bounds.gd_bias_upper(lam, sketch, w, descent, data)
    yield bounds.gd_bias_order(lam, sketch, w, descent, data)
    yield bounds.gd_bias_lower(lam, sketch, energies, descent, data)
    yield bounds.one_pass_bias_upper(lam, sketch, w, one_pass)
    yield bounds.one_pass_bias_upper(lam, sketch, w, one_pass, as_printed=True)
    yield bounds.one_pass_bias_lower(lam, sketch, energies, one_pass)
    yield bounds.one_pass_bias_lower(lam, sketch, energies, one_pass, cutoff=False)
    yield bounds.tail_concentration(lam, sketch, M // 2)
    yield bounds.head_concentration(lam, sketch, 4)
    yield bounds.head_concentration(lam, sketch, 4, as_printed=True)
    yield bounds.head_tail_comparison(lam, sketch, 4)
    yield bounds.head_tail_resolvent(lam, sketch)
    yield bounds.tail_spectral_ratio(lam, sketch, M // 3)
    yield bounds.power_law_spectrum(problem.eigenvalues, A)


def multi_pass_bounds(problem):
    """Appendices E, I, J and the sample's half of K: N = 512, L = 512, budget 4096."""
    mu, rates = problem.eigenvalues, bl.wsd(L, GAMMA)
    sets = datasets(problem)
    ridge = 1.0 / rates.sum()
    yield bounds.largest_norm(mu, sets)
    yield bounds.gd_variance(mu, rates, sets)
    yield bounds.gd_variance(mu, rates, sets, form="printed")
    yield bounds.gd_variance_order(mu, rates, sets)
    yield bounds.gd_variance_spectral(mu, rates, sets)
    yield bounds.covariance_replacement(mu, sets, ridge)
    yield bounds.regularized_comparison(mu, sets, ridge)
    data = problem.sample(N, 0)
    batches = np.full(L, BUDGET // L)
    rho = (N - batches) / (batches * (N - 1.0))
    given = dense_fluctuation(problem, data[0], rates, rho, data[1])
    mean = dense_fluctuation(problem, data[0], rates, rho)
    yield bounds.batch_covariance(problem, data, rates)
    yield bounds.transition_covariance(data[0])
    yield bounds.lower_covariance_factor(data[0], rates)
    yield bounds.kernel_comparison(mu, data[0], rates, A)
    yield bounds.cross_kernel_comparison(mu, data[0], rates, A)
    yield bounds.wsd_kernel_mass(mu, L, GAMMA)
    yield bounds.power_law_kernel_mass(mu, A, L, GAMMA)
    for form in ("cross", "printed", "sharp"):
        yield bounds.conditional_fluctuation(problem, data, rates, batches, given, form=form)
    yield bounds.expected_fluctuation(problem, data[0], rates, batches, mean)
    yield bounds.fluctuation_order(problem, data, rates, batches, A, given)


def datasets(problem):
    """Eight sets of features, in Sigma's eigenbasis."""
    return np.array([problem.sample(N, seed)[0] for seed in range(8)])


def main():
    problem = bl.Problem.paper()
    header = (
        "bound",
        "where",
        "lower",
        "value",
        "upper",
        "value/lower",
        "value/upper",
        "hypotheses",
    )
    for title, family in (
        ("One pass", one_pass_bounds),
        ("The sketch and the bias", ambient_bounds),
        ("Multi-pass", multi_pass_bounds),
    ):
        print(f"\n### {title}\n")
        print("| " + " | ".join(header) + " |")
        print("| " + " | ".join("---" for _ in header) + " |")
        for bound in family(problem):
            print(row(bound))
    factors = bounds.leave_one_out(problem, problem.sample(N, 0), bl.wsd(L, GAMMA), A)
    claim = factors.noise_ceiling * factors.replacement / factors.total
    print(
        f"\nLeave one out: F_mp = {factors.total:.3g}, R_p = {factors.replacement:.3g}, "
        f"sigma_xi^2 R_p / F_mp = {claim:.3g}"
    )


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
            f"fails: {c.name.replace('||', '‖')}, got {c.measured:.3g}" for c in bound.failed
        )
    )
    mark = "" if bound.constant_explicit else " (no constant)"
    inside = "" if bound.inside or not bound.constant_explicit else " OUTSIDE"
    where = bound.where.split(";")[0].split(",")[0]
    cells = [(bound.name + mark).replace("||", "‖"), where, *sides, *ratios, state + inside]
    return "| " + " | ".join(cells) + " |"


def two_levels(steps, peak):
    """One direction at 1, and many at 1/(gamma J) that dominate the lemma's order: H.5's remark."""
    tau = (steps - steps // 2) / np.log(steps)
    small = 1.0 / (peak * steps)
    return np.array([1.0, small]), np.array([1.0, round(100.0 / (peak * tau * small) ** 2)])


def slips():
    print("Total influence over H.5's order: two levels, power law a = 2; hypotheses of the former")
    for steps in (2**9, 2**11, 2**13, 2**15, 2**17):
        levels, counts = two_levels(steps, 0.3)
        bound = bounds.wsd_kernel_mass(levels, steps, 0.3, multiplicity=counts)
        law = bounds.wsd_kernel_mass(np.arange(1.0, 2001.0) ** -2.0, steps, 0.3)
        failed = ", ".join(f"{c.id} {c.measured:.3g}" for c in bound.failed)
        print(steps, f"{bound.tightness[0]:.3g} {law.tightness[0]:.3g}", failed)
    print("Influence over its phase means: batch 1 in the last 16 steps and 10^9 before; even")
    for steps in (2**9, 2**12, 2**15):
        mu, late = np.arange(1.0, 2001.0) ** -2.0, np.full(steps, 1e9)
        late[-16:] = 1.0
        pair = [bounds.phase_means(mu, steps, 0.3, x) for x in (late, np.ones(steps))]
        print(steps, *(f"{bound.tightness[0]:.3g}" for bound in pair))
    print("A.8 in the decay: smallest and largest kappa_t / (tau^(1/a-2) gamma_t^(1/a)), a = 2")
    for steps in (2**9, 2**12, 2**15):
        bound = bounds.decay_phase_influence(np.arange(1.0, 4001.0) ** -2.0, 2.0, steps, 0.5)
        print(steps, *(f"{x:.3g}" for x in bound.tightness))
    print("A.9: P(8 gamma max |z|^2 > r) and N^(-c r), r = 1, 1.5, 2; paper's instance, gamma 0.01")
    bound = bounds.largest_norm_tail(bl.Problem.paper(), 512, 0.01, [1.0, 1.5, 2.0])
    print(*(f"{x:.2g}" for x in bound.value), "|", *(f"{x:.2g}" for x in bound.upper))
    print("Approx over M^(1-b), a = 1.5: b = 2.2 and b = 3.5 > a + 1")
    for size in (16, 32, 64, 128):
        lam = np.arange(1.0, 4001.0) ** -1.5
        sketch = np.random.default_rng(0).standard_normal((size, 4000)) / np.sqrt(size)
        orders = [bounds.approximation_order(lam, sketch, b) for b in (2.2, 3.5)]
        print(size, *(f"{order.tightness[0]:.3g}" for order in orders))
    print("Head concentration at k = 1, mean measured constant: printed k/M, corrected")
    for size in (16, 64, 256, 1024):
        rng = np.random.default_rng(0)
        lam = np.append(1.0, np.full(size, 1e-6))
        ratios = []
        for _ in range(10 if size < 1000 else 3):
            sketch = rng.standard_normal((size, size + 1)) / np.sqrt(size)
            pair = [bounds.head_concentration(lam, sketch, 1, as_printed=p) for p in (True, False)]
            ratios.append([bound.tightness[1] for bound in pair])
        print(size, *np.mean(ratios, axis=0).round(2))
    print("GD variance: value N/D_L, value N/D_U, value over the printed trace inequality")
    for a in (1.5, 2.0, 3.0):
        for size, samples in ((64, 512), (64, 64), (64, 16), (256, 32), (64, 4)):
            mu = np.arange(1.0, size + 1) ** -a
            problem = bl.Problem.from_spectrum(mu, np.ones(size), 1.0)
            data = np.array([problem.sample(samples, seed)[0] for seed in range(8)])
            top = max(np.linalg.eigvalsh(Z.T @ Z / samples)[-1] for Z in data)
            for steps in (64, 512, 4096):
                rates = bl.wsd(steps, 0.5 / top)
                order = bounds.gd_variance_order(mu, rates, data).tightness
                proof = bounds.gd_variance(mu, rates, data, form="printed").tightness[0]
                print(a, size, samples, steps, *(f"{x:.3g}" for x in (*order, proof)))


if __name__ == "__main__":
    slips() if "--slips" in sys.argv[1:] else main()
