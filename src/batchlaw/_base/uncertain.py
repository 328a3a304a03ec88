"""A number with its standard error, both to the digits that the error leaves."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

# Digits shown of an error, and of a number without one.
ERROR_DIGITS, DIGITS = 2, 6
# Numbers whose first digit is at one of these powers of ten are written out.
WRITTEN_OUT = range(-4, 6)
# Digits that hold any sum of two floats.
ALL_DIGITS = 700


def with_error(value: float, error: float) -> str:
    """``0.1146 ± 0.0017``: the error to two digits, the value to the same place.

    Numbers too large or too small to be written out share a power of ten:
    ``(1.146 ± 0.017)e-09``.
    """
    if not (math.isfinite(value) and math.isfinite(error) and error > 0.0):
        return f"{value:.{DIGITS}g} ± {error:.{ERROR_DIGITS}g}"
    with localcontext(prec=ALL_DIGITS):
        # Rounded first, as 0.0996 has the place of 0.10.
        spread = Decimal(f"{error:.{ERROR_DIGITS - 1}e}")
        shown = Decimal(value).quantize(spread)
        power = max(number.adjusted() for number in (shown, spread) if number)
        if power in WRITTEN_OUT:
            return f"{shown:f} ± {spread:f}"
        return f"({shown.scaleb(-power):f} ± {spread.scaleb(-power):f})e{power:+03d}"
