"""When the second moment grows although the mean contracts."""

from __future__ import annotations

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import Unstable
from batchlaw.model.problem import Problem
from batchlaw.risk.result import SCHEDULE, Note
from batchlaw.schedule.update_rule import PLAIN, SGD, UpdateRule, linear


def growth(problem: Problem, rate: float, batch: float, rule: SGD = PLAIN) -> float:
    """A number that is below 1 where SGD's second moment contracts at a fixed rate and batch.

    The gradient's noise in direction j has the variance (mu_j^2 y_j + mu_j sum_k n_k mu_k y_k)/B,
    y the second moments where it is taken. Noise of variance 1 at every step in direction j
    leads to a second moment h_j there. So the map has a spectral radius below 1 exactly where
    u_j = mu_j^2 h_j / B < 1 and sum_j n_j u_j / (1 - u_j) < 1. That sum is returned, or infinity
    where some u reaches 1. With x = gamma mu, u = x/(B (2 - x)) for plain SGD (the usual condition
    gamma tr(Sigma) < 2 is its limit for B = 1 and small gamma); with momentum h is the variance
    of the ARMA process that a direction then follows. Both forms of momentum agree at a fixed rate.
    """
    x, beta = rate * problem.eigenvalues, float(rule.momentum)
    if rule.nesterov:
        top = x * (1.0 + beta + beta * (1.0 + 2.0 * beta) * x)
        bottom = (1.0 - beta + beta * x) * (2.0 * (1.0 + beta) - (1.0 + 2.0 * beta) * x)
    else:
        top = x * (1.0 + beta)
        bottom = (1.0 - beta) * (2.0 * (1.0 + beta) - x)
    margin = batch * bottom - top
    if (margin <= 0.0).any():
        return np.inf
    return float((problem.multiplicity * top / margin).sum())


def largest_stable_rate(problem: Problem, batch: float, *, rule: UpdateRule | None = None) -> float:
    """The fixed rate up to which the second moment of SGD with this batch contracts."""
    from scipy.optimize import brentq

    batch = checks.real("batch", batch, above=0.0)
    update = linear(rule, "the largest stable rate")

    def excess(rate: float) -> float:
        # Zero where the growth is 1, and finite where it is infinite.
        return 0.5 - 1.0 / (1.0 + growth(problem, rate, batch, update))

    # Just past the rates at which the mean contracts the growth is infinite.
    top = (1.0 + 1e-12) * 2.0 * (1.0 + float(update.momentum)) / float(problem.eigenvalues[0])
    return float(brentq(excess, 0.0, top, xtol=np.finfo(float).tiny, rtol=1e-15))


def check_overflow(values: FloatArray, rates: FloatArray, batches: FloatArray) -> None:
    """Refuse a run whose second moment overflows."""
    if not np.isfinite(values).all():
        raise Unstable(
            "rates",
            f"is unstable for batches as small as {batches.min():g}",
            hint="the second moment overflows although the mean contracts",
            subject=f"peak rate {rates.max():.6g}",
        )


def growth_note(
    problem: Problem,
    rates: FloatArray,
    batches: FloatArray,
    rule: SGD,
) -> Note | None:
    """A sentence where some steps of a run enlarge the second moment, or None."""

    def stable_rate(batch: float) -> float:
        return largest_stable_rate(problem, batch, rule=rule)

    smallest, largest = float(batches.min()), float(batches.max())
    if growth(problem, float(rates.max()), smallest, rule) < 1.0:
        return None  # the worst pair is stable, and so is every other
    # The limit is a smooth function of the batch: interpolating a few points suffices for the
    # share of steps, and only the worst step's limit is computed exactly.
    grid = np.geomspace(smallest, largest, 33) if largest > smallest else np.array([smallest])
    limits = np.interp(batches, grid, [stable_rate(batch) for batch in grid])
    excess = rates / limits
    row, step = np.unravel_index(int(excess.argmax()), excess.shape)
    rate, batch = float(rates[step]), float(batches[row, step])
    limit = stable_rate(batch)
    if rate < limit:
        return None
    share = max((excess >= 1.0).mean(), 1.0 / excess.size)
    return Note(
        f"the second moment grows at about {100 * share:.3g} % of the steps: rate {rate:.6g} at "
        f"step {step + 1}{SCHEDULE} is above {limit:.6g}, the largest stable one for batch "
        f"{batch:g}" + (f" and momentum {rule.momentum:g}" if rule.momentum else ""),
        "growth",
        int(row) if batches.shape[0] > 1 else None,
    )


def excess_note(problem: Problem, excess: FloatArray) -> Note | None:
    """A sentence where a run ends worse than its start and the noise together, or None.

    For runs whose second-moment map has no simple stability limit: this judges the outcome.
    """
    start = float((problem.multiplicity * problem.eigenvalues) @ problem.target_energy)
    worst = float(np.max(excess))
    if worst <= start + problem.noise_variance:
        return None
    return Note(
        f"the second moment grows: excess risk {worst:.4g} is above {start:.4g} at the start and "
        f"{problem.noise_variance:.4g} of label noise together; the rate is too large for the "
        "batches or the data",
        "growth",
    )
