"""A procedure of your own: a step function in, a ``Risk`` with standard errors out.

It is run on the same data, batches, seeds and threads as the built-in simulators, so that its
difference to plain SGD is not blurred by different samples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray, IntArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.kernels import rules
from batchlaw._base.kernels.common import aligned_zeros
from batchlaw.model.problem import Problem
from batchlaw.risk.coordinates import Coordinates, coordinates_of
from batchlaw.risk.result import TERMS, Risk, jackknife
from batchlaw.risk.simulate import (
    ONE_PASS,
    REUSE,
    Draw,
    Progress,
    around_the_mean,
    placed_draw,
    repeat,
    simulated,
    stream,
)
from batchlaw.risk.stepping import RowSteps, Steps, sampling_of, steps_of
from batchlaw.schedule.averages import readout, running_readout
from batchlaw.schedule.update_rule import UpdateRule

# step(u, state, features, labels, rate, t), which changes u in place or returns the new one.
Step = Callable[..., Any]


def simulate_procedure(
    problem: Problem,
    rates: ArrayLike,
    batches: Batches,
    step: Step | UpdateRule,
    *,
    repetitions: int,
    seed: int,
    samples: int | None = None,
    replacement: bool = False,
    reshuffle: bool = False,
    memory: int = 0,
    average: ArrayLike | str | None = None,
    name: str | None = None,
    draw: Draw | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Risk:
    """The risk of any procedure that goes from batch to batch, by Monte Carlo.

    ``bias`` is that of the mean result and ``variance`` is around it, over data and batches
    together, for one pass and for reused data; both have standard errors. All repetitions, data
    and batches are those of ``simulate_one_pass`` and ``simulate_multi_pass`` for the same seed,
    whatever the step; ``paired_difference`` compares two procedures.

    Parameters
    ----------
    rates : (T,) array
        Step sizes, handed to the step one by one; they are not checked for stability.
    batches : (T,) or (S, T) array
        Batch sizes B_t, whole numbers.
    step
        ``step(u, state, features, labels, rate, t)`` makes update t = 0, 1, ..., T - 1 on a batch
        of features (B, M) and labels (B,). Coordinates are those of Sigma's eigenbasis, which
        matters to steps like a sign. It changes the iterate ``u`` (M,), which starts at zero, in
        place or returns the new one; what it remembers it keeps in ``state``. A function
        compiled by ``numba.njit`` runs without the interpreter, in threads. Or an update rule,
        ``bl.sgd(...)`` or ``bl.adam(...)`` (in the coordinates of its basis), to compare with.
    repetitions
        Independent datasets, at least 3.
    seed
        Fixes the samples and batches of all repetitions.
    samples
        N, the size of a dataset that is reused; None for one pass.
    replacement
        With ``samples``: draw batches with replacement.
    reshuffle
        With ``samples``: go through a fresh order of the dataset each epoch.
    memory
        Rows of ``state`` (memory, M), which starts at zero: 1 for a velocity, 2 for Adam.
    average
        Weights on the iterates, or "tail:0.5", "ema:0.99"; None means the last iterate.
    name
        The procedure's name in the result; the function's by default.
    draw
        As for ``simulate_one_pass``.
    threads
        Defaults to the cores this process may use. The result does not depend on it.
    progress
        Called with the number of repetitions just finished.
    """
    problem = problem.expanded()
    gamma = checks.vector("rates", rates)
    M, R = problem.eigenvalues.size, checks.count("repetitions", repetitions, minimum=3)
    place = coordinates_of(step, problem) if isinstance(step, UpdateRule) else Coordinates()
    draw = placed_draw(draw, problem, place)
    steps, title = _steps(step, gamma, memory, average, name)
    if samples is None:
        for option, given in (("replacement", replacement), ("reshuffle", reshuffle)):
            if given:
                raise InputError(option, f"has no use without {arg('samples')}: one pass")
        sizes = checks.batches(batches, gamma.size)
        title, key = f"{title}, one pass", ONE_PASS
    else:
        N, way = checks.count("samples", samples), sampling_of(replacement, reshuffle)
        sizes = checks.batches(batches, gamma.size, maximum=None if replacement else N)
        title, key = f"{title}, {way.title}", REUSE
    finals = aligned_zeros(R, sizes.shape[0], M)

    def run(repetition: int, rng: np.random.Generator) -> None:
        if samples is None:
            finals[repetition] = place.leave(stream(steps, sizes, draw, rng, M))
            return
        state = steps.start(sizes.shape[0], M)
        steps.reuse(draw(N, rng), sizes, rng, way, state)
        finals[repetition] = place.leave(steps.result(state))

    repeat(run, range(R), seed, key, threads, progress)
    if gamma.any() and not finals.any():
        raise InputError(
            "step", "must change u in place or return the new one", "iterates that stayed at zero"
        )
    return simulated(title, problem, batches, R, seed, **around_the_mean(problem, finals))


def paired_difference(
    risk: Risk, reference: Risk, term: str = "excess"
) -> tuple[float | FloatArray, float | FloatArray]:
    """A term of one simulated risk minus another's, with the standard error of the difference.

    With the same seed the repetitions share their data, and the difference is known better than
    either side. ``risk`` and ``reference`` need the same schedules and number of repetitions.
    """
    first, second = _replicates(risk, term), _replicates(reference, term)
    if first.shape != second.shape:
        raise InputError(
            "reference", f"must have schedules x repetitions {first.shape}", f"{second.shape}"
        )
    error = jackknife(first - second)
    difference = getattr(risk, term) - getattr(reference, term)
    return (float(difference), float(error[0])) if np.ndim(difference) == 0 else (difference, error)


def _replicates(risk: Risk, term: str) -> FloatArray:
    known = (*risk.leave_one_out, "excess", "total")
    checks.choice("term", term, known)
    names = [name for name in TERMS if name in risk.leave_one_out]
    if not names:
        raise InputError("risk", "must be simulated", risk.method)
    if term in risk.leave_one_out:
        names = [term]
    return np.asarray(np.sum([risk.leave_one_out[name] for name in names], axis=0))


def _steps(
    step: Step | UpdateRule,
    gamma: FloatArray,
    memory: int,
    average: ArrayLike | str | None,
    name: str | None,
) -> tuple[Steps, str]:
    """The steps to run, and their name."""
    if isinstance(step, UpdateRule):
        for option, given in (("memory", memory != 0), ("average", average is not None)):
            if given:
                raise InputError(option, "is part of the update rule")
        return steps_of(step, gamma), name or step.title("SGD")
    if not callable(step):
        raise InputError("step", "must be a function or an update rule", repr(step)[:60])
    rows = checks.count("memory", memory, minimum=0)
    title = name or getattr(step, "__name__", "own procedure").replace("_", " ")
    return OwnSteps(step, gamma, rows, readout(average, gamma.size)), title


class OwnSteps(RowSteps):
    """A user's step function; the state holds the iterate, the readout and the memory."""

    readout = rules.OWN_READOUT

    def __init__(
        self, step: Step, rates: FloatArray, memory: int, average: FloatArray | None
    ) -> None:
        self.step, self.rates = step, rates
        self.running = running_readout(average, rates.size)
        self.height = rules.OWN_MEMORY + memory

    def follow(
        self,
        features: FloatArray,
        labels: FloatArray,
        rows: Any,
        first: int,
        sizes: IntArray,
        state: FloatArray,
    ) -> None:
        if rules.is_compiled(self.step):
            rules.own_steps(
                self.step, features, labels, rows, sizes, self.rates, self.running, first, state
            )
            return
        u, s, memory = state[rules.ITERATE], state[rules.OWN_READOUT], state[rules.OWN_MEMORY :]
        ends = np.cumsum(sizes)
        for t, start, end in zip(range(first, first + sizes.size), ends - sizes, ends, strict=True):
            batch = rows[start:end]
            new = self.step(u, memory, features[batch], labels[batch], float(self.rates[t]), t)
            if new is not None:
                if np.shape(new) != u.shape:
                    raise InputError(
                        "step", f"must return an iterate of shape {u.shape}", f"{np.shape(new)}"
                    )
                u[:] = new
            hold, weight = self.running[t]
            s[:] = hold * s + weight * u
