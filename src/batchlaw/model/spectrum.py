"""Spectrum: anything that an influence can be computed from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, Unstable
from batchlaw.model.nodes import power_sum_after, truncation_nodes

# Where no scale is known, gamma tr(Sigma): about half of what is stable with single samples.
USUAL_STEP = 0.5
# Exponents of an unknown power law that a plan is safe for, and how many of them are tried.
EXPONENTS = (1.2, 3.0)
GRID = 9
# Nodes that stand for the infinitely many directions of a power law.
NODES = 200


@dataclass(frozen=True, eq=False)
class Directions:
    """One spectrum: eigenvalues mu_j, and the weight n_j with which each counts.

    The weight is how many directions share the eigenvalue, or more generally what their
    gradient noise is over mu_j.
    """

    eigenvalues: FloatArray
    weight: FloatArray


@runtime_checkable
class Spectrum(Protocol):
    """What ``bl.influence`` and ``bl.plan`` accept beside plain eigenvalues.

    ``Problem``, ``PowerLaw``, ``EstimatedSpectrum`` and ``ModelSpectrum`` are spectra.
    """

    def directions(self, peak: float) -> Sequence[Directions]:
        """One spectrum, or the K spectra that are thought possible, for rates of this peak."""
        ...


def check_spectrum(spectrum: Any) -> Spectrum:
    """A spectrum, or one line that says what would be one."""
    if isinstance(spectrum, Spectrum):
        return spectrum
    shape = np.shape(spectrum)
    what = f"an array of shape {shape}" if shape else type(spectrum).__name__
    raise InputError(
        "spectrum",
        "must be a Problem, a PowerLaw, an EstimatedSpectrum or a ModelSpectrum",
        what,
        "eigenvalues become one by Problem.from_spectrum",
    )


@dataclass(frozen=True)
class PowerLaw:
    """A spectrum known by its exponent (or a range of them) and its trace.

    Attributes
    ----------
    exponent
        a of the eigenvalues i^-a, above 1; or (low, high), every a between which is possible.
    scale
        tr(Sigma) in the units of the rates; None takes 1/2 over the peak rate.
    """

    exponent: float | tuple[float, float] = EXPONENTS
    scale: float | None = None

    def __post_init__(self) -> None:
        low, high = self.range
        checks.real("exponent", low, above=1.0)
        checks.real("exponent", high, at_least=low)
        if self.scale is not None:
            checks.real("scale", self.scale, above=0.0)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest exponent."""
        exponents = np.atleast_1d(np.asarray(self.exponent, dtype=np.float64))
        if exponents.shape not in ((1,), (2,)):
            raise InputError("exponent", "must be one number or (low, high)", repr(self.exponent))
        return float(exponents[0]), float(exponents[-1])

    def exponents(self) -> FloatArray:
        """The exponents that stand for the range."""
        low, high = self.range
        return np.linspace(low, high, GRID) if np.ndim(self.exponent) else np.array([low])

    def trace(self, peak: float) -> float:
        """The scale, for rates of this peak; ``Unstable`` where they diverge for every exponent."""
        scale = USUAL_STEP / peak if self.scale is None else self.scale
        # The largest of eigenvalues i^-a with this trace, the zeta function bounded from above.
        top = scale / (1.0 + 1.0 / (self.range[0] - 1.0))
        if peak * top >= 2.0:
            raise Unstable(
                "scale",
                f"makes the peak rate {peak:.6g} unstable: the largest eigenvalue is at least "
                f"{top:.6g}",
                subject=f"scale {scale:.6g}",
            )
        return scale

    def directions(self, peak: float) -> Sequence[Directions]:
        """Eigenvalues i^-a with the trace, on nodes, for each of ``exponents``."""
        scale = self.trace(peak)
        spectra = []
        for a in self.exponents().tolist():
            nodes = truncation_nodes(a, 2.0, math.inf, NODES)
            unit = scale / power_sum_after(a, 0)
            spectra.append(Directions(unit * nodes.eigenvalues, nodes.multiplicity))
        return spectra
