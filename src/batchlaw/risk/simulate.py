"""Seeded Monte Carlo over datasets: the measured counterpart of the exact solvers.

Every repetition has its own random stream, spawned from the seed, and its own row of the
results, so the numbers do not depend on the number of threads. All update rules read the same
data and the same batches for the same seed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray, IntArray
from batchlaw._base.errors import InputError, Unstable
from batchlaw._base.kernels import sgd
from batchlaw._base.kernels.common import aligned_zeros
from batchlaw._base.machine import cores
from batchlaw.model.problem import Problem
from batchlaw.risk.coordinates import Coordinates, coordinates_of
from batchlaw.risk.result import Risk
from batchlaw.risk.runs import Dataset, check_dataset
from batchlaw.risk.stepping import Descends, Steps, descent_of, sampling_of, steps_of
from batchlaw.schedule.update_rule import PLAIN, SGD, UpdateRule, check_stable, rule_of

Draw = Callable[[int, np.random.Generator], Dataset]
Progress = Callable[[int], None]

# Spawn keys: with the same seed, GD and multi-pass SGD draw the same datasets, and one pass
# draws different samples.
ONE_PASS, REUSE = 1, 2

# Doubles of the sample stream held at once in one pass: 512 KB stay in cache.
WINDOW_ENTRIES = 2**16


def simulate_one_pass(
    problem: Problem,
    rates: ArrayLike,
    batches: Batches,
    *,
    repetitions: int,
    seed: int,
    samples: int | None = None,
    rule: UpdateRule | None = None,
    draw: Draw | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Risk:
    """One-pass batch SGD, repeated on fresh data: bias and centred variance (appendix L).

    All schedules of a repetition read the same stream of samples from its start.

    Parameters
    ----------
    problem
        Spectrum, target and noise, and so the distribution of the samples.
    rates : (T,) array
        Step sizes gamma_t.
    batches : (T,) or (S, T) array
        Batch sizes B_t, whole numbers.
    repetitions
        Independent datasets, at least 3.
    seed
        Fixes the samples of all repetitions.
    samples
        When given, every schedule must sum to it.
    rule
        The update rule, ``bl.sgd(...)`` or ``bl.adam(...)``; plain SGD by default.
    draw
        ``draw(n, rng) -> (features, labels)`` in place of the problem's Gaussian draws, with
        features (n, M) in the eigenbasis of Sigma, where u* is ``problem.optimum``. Sigma and
        the noise floor in the result stay the problem's.
    threads
        Defaults to the cores this process may use. The result does not depend on it.
    progress
        Called with the number of repetitions just finished.
    """
    problem = problem.expanded()
    update = PLAIN if rule is None else rule_of(rule)
    gamma = _checked_rates(problem, rates, update)
    sizes = checks.batches(batches, gamma.size, total=samples)
    R = checks.count("repetitions", repetitions, minimum=3)
    place = coordinates_of(update, problem)
    draw = placed_draw(draw, problem, place)
    steps = steps_of(update, gamma)
    finals = aligned_zeros(R, sizes.shape[0], problem.eigenvalues.size)

    def run(repetition: int, rng: np.random.Generator) -> None:
        final = stream(steps, sizes, draw, rng, problem.eigenvalues.size)
        finals[repetition] = place.leave(final)

    repeat(run, range(R), seed, ONE_PASS, threads, progress)
    parts = around_the_mean(problem, finals)
    return simulated(update.title("one-pass SGD"), problem, batches, R, seed, **parts)


def simulate_multi_pass(
    problem: Problem,
    rates: ArrayLike,
    batches: Batches,
    *,
    samples: int,
    repetitions: int,
    seed: int,
    replacement: bool = False,
    reshuffle: bool = False,
    rule: UpdateRule | None = None,
    draw: Draw | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Risk:
    """Multi-pass batch SGD on fresh datasets of N = ``samples``: fluctuation around GD.

    All schedules of a repetition share its dataset; GD with the same rule runs on it too, with
    its bias and its variance over the label noise kept apart. Batches are independent uniform
    subsets; ``replacement`` draws within a batch with replacement, ``reshuffle`` goes through a
    fresh order of the dataset each epoch (then the cross term is measured too, because
    the mean iterate is no longer GD's; likewise with a ``draw``, whose residuals may depend
    on the features). Other parameters as for ``simulate_one_pass``.

    With Adam, GD is Adam with the gradient of the whole dataset. It is not linear in the labels:
    ``bias`` is its risk on labels without noise, ``variance`` the squared distance that the noise
    then moves it by, ``fluctuation`` the squared distance from there to the run, and ``cross``
    all products between them, which do not vanish on average. The parts add up to the excess.
    """
    R = checks.count("repetitions", repetitions, minimum=3)
    terms = multi_pass_terms(
        problem,
        rates,
        batches,
        samples=samples,
        repetitions=range(R),
        seed=seed,
        replacement=replacement,
        reshuffle=reshuffle,
        rule=rule,
        draw=draw,
        threads=threads,
        progress=progress,
    )
    estimates = {term: leave_one_out(values) for term, values in terms.items()}
    title = (PLAIN if rule is None else rule).title("multi-pass SGD")
    title += f", {sampling_of(replacement, reshuffle).title}"
    return simulated(title, problem, batches, R, seed, **estimates)


def multi_pass_terms(
    problem: Problem,
    rates: ArrayLike,
    batches: Batches,
    *,
    samples: int,
    repetitions: range,
    seed: int,
    replacement: bool = False,
    reshuffle: bool = False,
    rule: UpdateRule | None = None,
    draw: Draw | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> dict[str, FloatArray]:
    """Terms of single repetitions of ``simulate_multi_pass``, each (schedules, repetitions).

    Every repetition has its own stream, so the work can be split into ranges. The schedules of
    a repetition draw from one stream in turn: leaving one out changes the numbers of the next.
    """
    problem = problem.expanded()
    update = PLAIN if rule is None else rule_of(rule)
    gamma = _checked_rates(problem, rates, update)
    N = checks.count("samples", samples)
    way, steps = sampling_of(replacement, reshuffle), steps_of(update, gamma)
    descent = descent_of(update, gamma)
    sizes = checks.batches(batches, gamma.size, maximum=None if replacement else N)
    # Then GD's is the mean given the data, and its two parts do not mix on average.
    uncrossed = draw is None and not reshuffle and isinstance(update, SGD)
    place = coordinates_of(update, problem)
    draw = placed_draw(draw, problem, place)
    S, R = sizes.shape[0], len(repetitions)
    parts = {name: np.zeros((S, R)) for name in ("bias", "variance", "fluctuation", "cross")}
    scale = np.sqrt(problem.eigenvalues)

    def run(index: int, rng: np.random.Generator) -> None:
        dataset = draw(N, rng)
        bias_part, noise_part = place.leave(_reference(problem, dataset, descent, update, place))
        state = steps.start(S, scale.size)
        steps.reuse(dataset, sizes, rng, way, state)
        u = place.leave(steps.result(state))
        gd_error = bias_part + noise_part
        around = (u - problem.optimum - gd_error) * scale
        parts["bias"][:, index] = ((bias_part * scale) ** 2).sum()
        parts["variance"][:, index] = ((noise_part * scale) ** 2).sum()
        parts["fluctuation"][:, index] = (around**2).sum(axis=1)
        parts["cross"][:, index] = 2.0 * (
            around @ (gd_error * scale) + (bias_part * noise_part) @ problem.eigenvalues
        )

    repeat(run, repetitions, seed, REUSE, threads, progress)
    if uncrossed:
        del parts["cross"]  # zero in expectation: E[u_L | data] = theta_L, residuals are noise
    return parts


def simulate_gradient_descent(
    problem: Problem,
    rates: ArrayLike,
    *,
    samples: int,
    repetitions: int,
    seed: int,
    rule: UpdateRule | None = None,
    draw: Draw | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Risk:
    """Normal GD on fresh datasets of N = ``samples``: its bias, and its variance over labels.

    With Adam in the parts of ``simulate_multi_pass``.
    """
    problem = problem.expanded()
    update = PLAIN if rule is None else rule_of(rule)
    gamma = _checked_rates(problem, rates, update)
    N = checks.count("samples", samples)
    R = checks.count("repetitions", repetitions, minimum=3)
    uncrossed = draw is None and isinstance(update, SGD)
    descent, place = descent_of(update, gamma), coordinates_of(update, problem)
    draw = placed_draw(draw, problem, place)
    parts = {name: np.zeros((1, R)) for name in ("bias", "variance", "cross")}

    def run(repetition: int, rng: np.random.Generator) -> None:
        bias, noise = place.leave(_reference(problem, draw(N, rng), descent, update, place))
        parts["bias"][0, repetition] = bias**2 @ problem.eigenvalues
        parts["variance"][0, repetition] = noise**2 @ problem.eigenvalues
        parts["cross"][0, repetition] = 2.0 * (bias * noise) @ problem.eigenvalues

    repeat(run, range(R), seed, REUSE, threads, progress)
    if uncrossed:
        del parts["cross"]  # zero in expectation: the residuals are independent noise
    estimates = {term: leave_one_out(values) for term, values in parts.items()}
    return simulated(update.title("normal GD"), problem, gamma, R, seed, **estimates)


def checked_draw(draw: Draw, directions: int) -> Draw:
    """The user's draw with its result checked: compiled loops trust what they get."""

    def checked(n: int, rng: np.random.Generator) -> Dataset:
        features, labels = check_dataset(draw(n, rng))
        if features.shape != (n, directions):
            raise InputError(
                "draw", f"must return features of shape {(n, directions)}", f"{features.shape}"
            )
        return features, labels

    return checked


def placed_draw(draw: Draw | None, problem: Problem, place: Coordinates) -> Draw:
    """The problem's samples, or those of the user's draw, in the coordinates of a rule."""
    drawn = problem.sample if draw is None else checked_draw(draw, problem.eigenvalues.size)
    if place.axes is None:
        return drawn
    return lambda n, rng: place.dataset(drawn(n, rng))


def _checked_rates(problem: Problem, rates: ArrayLike, rule: UpdateRule) -> FloatArray:
    """The rates; unstable ones are refused where the rule has a limit."""
    if isinstance(rule, SGD):
        return check_stable(rates, float(problem.eigenvalues[0]), rule)
    return checks.vector("rates", rates)


def stream(
    steps: Steps, sizes: IntArray, draw: Draw, rng: np.random.Generator, directions: int
) -> FloatArray:
    """Feed one stream of samples to all schedules through a window of bounded size.

    A schedule waits where its next batch reaches past the window; what any schedule
    still needs is kept when the window moves on. The window holds a block, or the longest
    batch if that is larger. Returns the results, (S, M).
    """
    state = steps.start(sizes.shape[0], directions)
    done = np.zeros(sizes.shape[0], dtype=np.int64)
    position = np.zeros_like(done)
    total = int(sizes.sum(axis=1).max())
    block = max(WINDOW_ENTRIES // directions, 1)
    offset = end = 0
    features, labels = np.empty((0, directions)), np.empty(0)
    while end < total:
        waiting = np.flatnonzero(done < sizes.shape[1])
        # At least to the end of the nearest batch, which may be longer than a block.
        nearest = int((position[waiting] + sizes[waiting, done[waiting]]).min())
        fresh = draw(min(max(block, nearest - end), total - end), rng)
        keep = int(position[waiting].min()) - offset
        if keep < labels.size:
            fresh = (
                np.concatenate([features[keep:], fresh[0]]),
                np.concatenate([labels[keep:], fresh[1]]),
            )
        features, labels = fresh
        offset += keep
        end = offset + labels.size
        steps.one_pass(features, labels, offset, sizes, done, position, state)
    return steps.result(state)


def _reference(
    problem: Problem, dataset: Dataset, descent: Descends, rule: UpdateRule, place: Coordinates
) -> FloatArray:
    """GD's error theta_L - u* on a dataset in two parts: without label noise, and what noise adds.

    SGD is linear in the labels z . u* + residual, so the two are run side by side. Other rules run
    on the labels without and with the residual.
    """
    features, labels = dataset
    optimum = place.enter(problem.optimum)
    clean = features @ optimum
    start = aligned_zeros(2, optimum.size)
    if isinstance(rule, SGD):
        residual = labels - clean
        targets = np.stack([np.zeros_like(residual), residual])
        start[0] = -optimum
        covariance, forcing = sgd.second_moments(features, targets)
        return descent.descend(covariance, forcing, start)
    covariance, forcing = sgd.second_moments(features, np.stack([clean, labels]))
    without, final = descent.descend(covariance, forcing, start)
    return np.stack([without - optimum, final - without])


def repeat(
    run: Callable[[int, np.random.Generator], None],
    repetitions: range,
    seed: int,
    key: int,
    threads: int | None,
    progress: Progress | None,
) -> None:
    """Run every repetition with a generator of its own, in threads: compiled loops release the GIL.

    ``run`` gets the index in the range and a generator.
    """
    seed = checks.count("seed", seed, minimum=0)
    threads = cores() if threads is None else checks.count("threads", threads)

    def run_one(index: int) -> None:
        # The same stream as from the seed's spawn(R).
        stream = np.random.SeedSequence(seed, spawn_key=(key, repetitions[index]))
        # A diverging run overflows; ``refuse_divergence`` checks after all repetitions.
        with np.errstate(over="ignore", invalid="ignore"):
            run(index, np.random.Generator(np.random.PCG64(stream)))

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(run_one, range(len(repetitions))):
            if progress is not None:
                progress(1)


# A term's estimate for every schedule, and its leave-one-out replicates.
Estimate = tuple[FloatArray, FloatArray]


def leave_one_out(values: FloatArray) -> Estimate:
    """Means over repetitions of (S, R) values, and the means without each repetition in turn."""
    R = values.shape[1]
    total = values.sum(axis=1, keepdims=True)
    return values.mean(axis=1), (total - values) / (R - 1)


def around_the_mean(problem: Problem, finals: FloatArray) -> dict[str, Estimate]:
    """Bias of the mean of (R, S, M) results, and their variance around it; overwrites them."""
    finals -= problem.optimum
    finals *= np.sqrt(problem.eigenvalues)
    bias, variance = _centred(finals)
    return {"bias": bias, "variance": variance}


def _centred(errors: FloatArray) -> tuple[Estimate, Estimate]:
    """Bias |mean|^2 and variance of (R, S, M) errors, both unbiased, with replicates.

    The variance is the paper's, 1/(R - 1) sum_r |x_r - mean|^2; the squared mean of R
    draws is too large by variance/R, which is subtracted.
    """
    R, S, _ = errors.shape
    bias, variance = np.empty(S), np.empty(S)
    bias_without, variance_without = np.empty((S, R)), np.empty((S, R))
    for s in range(S):
        mean = errors[:, s].mean(axis=0)
        deviation = errors[:, s] - mean
        distance = (deviation**2).sum(axis=1)
        squares = distance.sum()
        variance[s] = squares / (R - 1)
        bias[s] = mean @ mean - variance[s] / R
        # Without r the squares lose R/(R-1) |x_r - mean|^2, and the mean moves by
        # -(x_r - mean)/(R - 1).
        variance_without[s] = (squares - distance * (R / (R - 1))) / (R - 2)
        moved = mean @ mean - 2.0 * (deviation @ mean) / (R - 1) + distance / (R - 1) ** 2
        bias_without[s] = moved - variance_without[s] / (R - 1)
    return (bias, bias_without), (variance, variance_without)


def simulated(
    procedure: str,
    problem: Problem,
    batches: Batches,
    repetitions: int,
    seed: int,
    **terms: Estimate,
) -> Risk:
    """The estimates of a procedure's terms as its risk; a run that overflowed is refused."""
    single = checks.is_single(batches)
    refuse_divergence(procedure, *(x for x, _ in terms.values()))
    return Risk(
        procedure=procedure,
        method=f"Monte Carlo, {repetitions} repetitions, seed {seed}",
        irreducible=problem.irreducible,
        approximation=problem.approximation,
        leave_one_out={name: replicates for name, (_, replicates) in terms.items()},
        **{name: float(x[0]) if single else x for name, (x, _) in terms.items()},  # type: ignore[arg-type]
    ).named(batches)


def refuse_divergence(procedure: str, *values: FloatArray) -> None:
    """``Unstable`` where a simulated run overflowed."""
    if not all(np.isfinite(x).all() for x in values):
        raise Unstable(
            "rates",
            "diverges: its second moment overflows; use smaller rates or larger batches",
            subject=procedure,
        )
