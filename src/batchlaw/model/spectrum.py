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

# gamma tr(Sigma) if no scale is given: about half of what is stable with single samples.
USUAL_STEP = 0.5
# Range of exponents of an unknown power law, and the number of points that represent a range.
EXPONENTS = (1.2, 3.0)
RANGE_POINTS = 9
# Nodes that represent the infinitely many directions of a power law.
NODES = 200


@dataclass(frozen=True, eq=False)
class Directions:
    """One spectrum: eigenvalues mu_j, and the weight n_j with which each counts.

    The weight is the number of directions that share the eigenvalue or, more generally, their
    total gradient noise divided by mu_j.
    """

    eigenvalues: FloatArray
    weight: FloatArray


@runtime_checkable
class Spectrum(Protocol):
    """What ``bl.influence`` and ``bl.plan`` accept besides plain eigenvalues.

    ``Problem``, ``PowerLaw``, ``EstimatedSpectrum`` and ``ModelSpectrum`` are spectra.
    """

    def directions(self, peak: float) -> Sequence[Directions]:
        """One spectrum, or the K spectra considered possible, for rates with this peak."""
        ...


def check_spectrum(spectrum: Any) -> Spectrum:
    """Check that the argument is a spectrum, not an array."""
    if isinstance(spectrum, Spectrum):
        return spectrum
    shape = np.shape(spectrum)
    what = f"an array of shape {shape}" if shape else type(spectrum).__name__
    raise InputError(
        "spectrum",
        "must be a Problem, a PowerLaw, an EstimatedSpectrum or a ModelSpectrum",
        what,
        "turn eigenvalues into one with Problem.from_spectrum",
    )


@dataclass(frozen=True)
class PowerLaw:
    """A spectrum known by its exponent (or a range of them) and its trace.

    Attributes
    ----------
    exponent
        a of the eigenvalues i^-a, above 1; or (low, high) if any a in between is possible.
    scale
        tr(Sigma) in the units of the rates; None means 1/2 over the peak rate.
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
        """The exponents that represent the range."""
        low, high = self.range
        return np.linspace(low, high, RANGE_POINTS) if np.ndim(self.exponent) else np.array([low])

    def trace(self, peak: float) -> float:
        """The scale for rates with this peak; ``Unstable`` if they diverge for every exponent."""
        scale = USUAL_STEP / peak if self.scale is None else self.scale
        # Lower bound on the largest eigenvalue: trace / zeta(a), with zeta(a) <= 1 + 1/(a - 1).
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
        """Eigenvalues proportional to i^-a with this trace, as nodes, for each of ``exponents``."""
        scale = self.trace(peak)
        spectra = []
        for a in self.exponents().tolist():
            nodes = truncation_nodes(a, 2.0, math.inf, NODES)
            unit = scale / power_sum_after(a, 0)
            spectra.append(Directions(unit * nodes.eigenvalues, nodes.multiplicity))
        return spectra
