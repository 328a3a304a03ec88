"""Learning-rate schedules: functions that return an array of step sizes.

Step t of the paper is index t - 1. Any non-negative array works wherever these do.
``schedule.registry`` lists them with their parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError

# Decays of WSD, from 1 at x = 0 to ``final`` at x = 1, as multiples of the peak.
DECAYS: dict[str, Callable[[FloatArray, float], FloatArray]] = {
    "exponential": lambda x, final: np.exp(x * math.log(final)),
    "linear": lambda x, final: 1.0 - (1.0 - final) * x,
    "1-sqrt": lambda x, final: 1.0 - (1.0 - final) * np.sqrt(x),
    "cosine": lambda x, final: final + (1.0 - final) * 0.5 * (1.0 + np.cos(np.pi * x)),
}
# Ends of WSD's warmup and stable phase, as shares of the steps (paper, appendix L).
WARMUP, STABLE = 0.1, 0.5


def wsd_phases(
    steps: int, warmup: float | int = WARMUP, stable: float | int = STABLE
) -> tuple[int, int]:
    """Last step of the warmup and last step of the stable phase, T_w and T_s.

    A float is a share of the steps, rounded down as in the paper's appendix L; an int is the
    step itself. A warmup of 0 means none: the first step is at the peak.
    """
    steps = checks.count("steps", steps, minimum=3)
    warmup_end = _endpoint("warmup", warmup, steps)
    stable_end = _endpoint("stable", stable, steps)
    if warmup_end < 1 and warmup != 0:
        # Suggest the share of one step, rounded up to three digits.
        scale = 10 ** (len(str(steps)) + 2)
        raise InputError(
            "warmup",
            f"must last at least one step, a share of {-(-scale // steps) / scale:g} of {steps}, "
            "or be 0 for none",
            f"{warmup}",
        )
    if not warmup_end < stable_end < steps:
        raise InputError(
            "stable",
            f"must end after the warmup, at step {warmup_end}, and before step {steps}",
            f"{stable_end}",
        )
    return warmup_end, stable_end


def wsd(
    steps: int,
    peak: float,
    warmup: float | int = WARMUP,
    stable: float | int = STABLE,
    decay: str = "exponential",
    final: float | None = None,
) -> FloatArray:
    r"""Warmup-stable-decay (paper, section 2).

    gamma t / T_w until T_w and gamma until T_s. After that gamma times one of these, with
    x = (t - T_s)/(T - T_s)::

        exponential   final^x                   (the paper's, with final = 1/T)
        linear        1 - (1 - final) x
        1-sqrt        1 - (1 - final) sqrt(x)
        cosine        final + (1 - final) (1 + cos(pi x))/2

    Parameters
    ----------
    steps
        T, the number of updates.
    peak
        gamma, the highest rate.
    warmup
        T_w, the last step of the warmup: a share of the steps (float) or a step (int); 0 for none.
    stable
        T_s, the last step of the stable phase: also a share of the steps or a step.
    decay
        "exponential", "linear", "1-sqrt" or "cosine".
    final
        Last rate as a share of the peak: 1/steps for exponential, 0 for the others.
    """
    warmup_end, stable_end = wsd_phases(steps, warmup, stable)
    steps = int(steps)
    peak = checks.real("peak", peak, above=0.0)
    checks.choice("decay", decay, DECAYS)
    t = np.arange(1, steps + 1)
    x = np.clip((t - stable_end) / (steps - stable_end), 0.0, 1.0)
    if decay == "exponential":
        share = 1.0 / steps if final is None else checks.real("final", final, above=0.0, at_most=1)
    else:
        share = 0.0 if final is None else checks.real("final", final, at_least=0.0, at_most=1.0)
    return peak * np.minimum(t / max(warmup_end, 1), 1.0) * DECAYS[decay](x, share)


def constant(steps: int, peak: float, warmup: float | int = 0) -> FloatArray:
    """The same rate at every step, after a linear warmup."""
    return polynomial(steps, peak, power=1.0, final=1.0, warmup=warmup)


def linear(steps: int, peak: float, final: float = 0.0, warmup: float | int = 0) -> FloatArray:
    """Straight line from the peak to ``final`` times the peak, after a linear warmup."""
    return polynomial(steps, peak, power=1.0, final=final, warmup=warmup)


def polynomial(
    steps: int, peak: float, power: float = 2.0, final: float = 0.0, warmup: float | int = 0
) -> FloatArray:
    """``final + (1 - final) (1 - x)^power`` times the peak, after a linear warmup."""
    power = checks.real("power", power, above=0.0)
    x, scale = _progress(steps, peak, warmup)
    final = checks.real("final", final, at_least=0.0, at_most=1.0)
    return scale * (final + (1.0 - final) * (1.0 - x) ** power)


def cosine(steps: int, peak: float, final: float = 0.0, warmup: float | int = 0) -> FloatArray:
    """Half a cosine from the peak to ``final`` times the peak, after a linear warmup."""
    x, scale = _progress(steps, peak, warmup)
    final = checks.real("final", final, at_least=0.0, at_most=1.0)
    return scale * (final + (1.0 - final) * 0.5 * (1.0 + np.cos(np.pi * x)))


def step(
    steps: int,
    peak: float,
    drops: Sequence[float | int] = (0.5, 0.75),
    factor: float = 0.1,
    warmup: float | int = 0,
) -> FloatArray:
    """The rate is multiplied by ``factor`` after each of the steps in ``drops``."""
    factor = checks.real("factor", factor, above=0.0)
    x, scale = _progress(steps, peak, warmup)
    t = np.arange(1, x.size + 1)
    ends = [_endpoint("drops", drop, x.size) for drop in drops]
    passed = sum((t > end).astype(int) for end in ends) if ends else np.zeros(x.size)
    return scale * factor ** np.asarray(passed, dtype=np.float64)


def _progress(steps: int, peak: float, warmup: float | int) -> tuple[FloatArray, FloatArray]:
    """Progress x through the decay, and the peak times the warmup ramp.

    x is 0 at the end of the warmup and 1 at the last step.
    """
    steps = checks.count("steps", steps)
    peak = checks.real("peak", peak, above=0.0)
    end = _endpoint("warmup", warmup, steps)
    if end > steps or end == steps > 1:
        raise InputError("warmup", f"must end before step {steps}", f"{end}")
    t = np.arange(1, steps + 1, dtype=np.float64)
    # Without warmup the first step is at the peak, as the last step of a warmup would be.
    start = max(end, 1)
    x = np.clip((t - start) / max(steps - start, 1), 0.0, 1.0)
    return x, peak * np.minimum(t / start, 1.0)


def _endpoint(name: str, value: float | int, steps: int) -> int:
    """The step that a value stands for: a share of the steps (float below 1), or a step (int)."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return checks.count(name, int(value), minimum=0)
    share = checks.real(name, value, at_least=0.0)
    if share >= 1.0:
        raise InputError(
            name, "must be a share of the steps below 1, or a whole step as an int", repr(value)
        )
    # 0.29 * 100 is 28.999999999999996, but 29 is meant.
    return math.floor(share * steps + 1e-9)
