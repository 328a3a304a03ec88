"""Shared by the checks of other works: sketches of power laws, and checks of exponents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from batchlaw.evidence.claims.claim import Check, Claim, Curve, Exponent, wrong_exponents
from batchlaw.model.problem import Problem


def sketch(a: float, b: float, size: float, sigma: float, nodes: int) -> Problem:
    """The Gaussian sketch to ``size`` directions, averaged over the target prior."""
    rows = size if math.isinf(size) else int(size)
    return Problem.power_law_nodes(a, b, rows, kind="sketch", sigma=sigma, nodes=nodes)


def exponent_check(
    claim: Claim,
    case: str,
    evidence: Curve,
    law: Exponent,
    others: Mapping[str, float] | None = None,
) -> Check[Any]:
    """A check whose wrong laws are off by 0.1, or have another term's or phase's exponent."""
    wrong = wrong_exponents(law)
    wrong |= {name: replace(law, value=value) for name, value in (others or {}).items()}
    return Check(claim, case, evidence, law, wrong)


def limit_check(
    claim: Claim, case: str, a: float, b: float, exponent: float, others: Mapping[str, float]
) -> Check[Any]:
    """The risk that no number of steps removes, against the size of the sketch."""
    sizes = np.logspace(3.0, 9.0, 8).round()
    values = [sketch(a, b, size, 0.0, 64).approximation for size in sizes]
    return exponent_check(
        claim,
        f"{case}, M to {sizes[-1]:g}",
        Curve({"M": sizes}, np.array(values), "Approx"),
        Exponent(exponent, "M"),
        others=others,
    )
