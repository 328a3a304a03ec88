"""The claims table as CSV, JSON and a Markdown report with figures."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from batchlaw._base.files import OutputDirectory, Transaction
from batchlaw._base.version import __version__
from batchlaw.evidence.claims.check_settings import CheckSize
from batchlaw.evidence.claims.claim import (
    CONFIRMED,
    CONTRADICTED,
    VERDICTS,
    Claim,
    Collapse,
    Curve,
    Exponent,
    Proportional,
    Value,
    describe,
)
from batchlaw.evidence.claims.figures import collapse_figure, overview_figure, slopes_figure
from batchlaw.evidence.claims.run import Row
from batchlaw.plots.common import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KeyT = TypeVar("KeyT")

# A claim with at least this many cases gets its own figure.
MIN_CASES_FOR_FIGURE = 2

# Shown in a row where every hypothesis of its law holds.
ALL_HOLD = "hold"

INTRODUCTION = """\
A slope is a local log-log regression over the largest sizes; its interval is two standard errors
over draws, where there are any, and the drift from the window before. **outside the law's
regime**: a hypothesis does not hold; it is named with what was measured and its limit, whatever
the slope. Otherwise **confirmed**: within the tolerance, the interval is no wider, and every wrong
law (exponent off by 0.1, horizons swapped, 1/B for rho, ...) is contradicted by the same evidence.
**contradicted**: the law lies outside the interval by more than the tolerance, or the other horizon
fits more than twice as closely. **not settled at this size**: neither.
"""


def write(
    rows: Sequence[Row], size: CheckSize, seconds: float, output: OutputDirectory
) -> list[Path]:
    """claims.csv, claims.json, report.md and its figures, all or none of them.

    Figures of an earlier report in the same directory are removed.
    """
    with output.transaction() as files:
        files.csv("claims.csv", [record(row) for row in rows])
        files.json("claims.json", _document(rows, size, seconds))
        figures = _figures(rows, files)
        files.path("report.md").write_text(markdown(rows, size, seconds, figures))
    for old in (*output.path.glob("claim_*.png"), *output.path.glob("family_*.png")):
        if old not in files.written:
            old.unlink()
    return files.written


def record(row: Row) -> dict[str, Any]:
    """One line of the claims table."""
    claim, check, judgement = row.claim, row.check, row.judgement
    return {
        "id": claim.id,
        "family": claim.family,
        "claim": claim.sentence,
        "where": claim.where,
        "case": check.case,
        "predicted": judgement.predicted,
        "measured": _finite(judgement.measured),
        "low": _finite(judgement.low),
        "high": _finite(judgement.high),
        "verdict": judgement.verdict,
        "wrong_laws_rejected": sum(row.rejected.values()),
        "wrong_laws": len(row.rejected),
        "hypotheses": _hypotheses(row),
        "detail": judgement.detail,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _data(row: Row) -> dict[str, Any]:
    """The law, the wrong laws and the hypotheses as data."""
    check, law = row.check, row.check.law
    return {
        "law": type(law).__name__,
        "law_value": float(law.value) if isinstance(law, Exponent | Value) else None,
        "side": law.side if isinstance(law, Value) else None,
        "tolerance": float(law.tolerance),
        "rejected": row.rejected,
        "conditions": [
            {
                "id": condition.id,
                "name": condition.name,
                "measured": _finite(condition.measured),
                "limit": _finite(condition.limit),
                "at_least": condition.at_least,
                "verdict": condition.verdict,
                "unmet": condition in check.unmet,
            }
            for condition in check.hypotheses
        ],
    }


def _document(rows: Sequence[Row], size: CheckSize, seconds: float) -> dict[str, Any]:
    return {
        "size": "quick" if size.quick else "full",
        "seconds": round(seconds, 1),
        "verdicts": counts(_verdicts(rows)),
        "claims": [record(row) | _data(row) for row in rows],
        "versions": {
            "batchlaw": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def counts(verdicts: Sequence[str]) -> dict[str, int]:
    """Number of cases with each verdict, in the order of ``VERDICTS``."""
    tally = Counter(verdicts)
    return {verdict: tally[verdict] for verdict in VERDICTS if tally[verdict]}


def markdown(rows: Sequence[Row], size: CheckSize, seconds: float, figures: dict[str, str]) -> str:
    """The report: one summary line per claim, then every case, with the figures."""
    total = ", ".join(f"{n} {name}" for name, n in counts(_verdicts(rows)).items())
    lines = [
        f"# The paper's claims, measured ({'quick' if size.quick else 'full'} size)",
        "",
        f"{len(rows)} cases: {total}. batchlaw {__version__}, {seconds:.0f} s of one core.",
        "",
        INTRODUCTION,
        *summary_table(rows),
    ]
    for family, members in by_family(rows).items():
        lines += ["", f"## {family}"]
        if family in figures:
            lines += ["", f"![{family}: all cases]({figures[family]})"]
        for claim, cases in by_claim(members).items():
            lines += ["", f"### `{claim.id}`: {claim.sentence}", "", f"{claim.where}.", ""]
            lines += _case_table(cases)
            if claim.id in figures:
                lines += ["", f"![{claim.sentence}]({figures[claim.id]})"]
    return "\n".join(lines) + "\n"


def summary_table(rows: Sequence[Row]) -> list[str]:
    """One line per claim, in Markdown."""
    lines = [
        "| id | claim | where | verdicts | furthest off | wrong laws rejected |",
        "| - | - | - | - | - | - |",
    ]
    for claim, cases in by_claim(rows).items():
        verdicts = ", ".join(f"{n} {name}" for name, n in counts(_verdicts(cases)).items())
        rejections = [ok for case in cases for ok in case.rejected.values()]
        rejected = f"{sum(rejections)} of {len(rejections)}" if rejections else "-"
        lines.append(
            f"| `{claim.id}` | {claim.sentence} | {claim.where} | {verdicts} "
            f"| {_furthest(cases)} | {rejected} |"
        )
    return lines


def by_family(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows grouped by family, in order of appearance."""
    return _grouped(rows, [row.claim.family for row in rows])


def by_claim(rows: Sequence[Row]) -> dict[Claim, list[Row]]:
    """Rows grouped by what they claim, in order of appearance."""
    return _grouped(rows, [row.claim for row in rows])


def _grouped(rows: Sequence[Row], keys: Sequence[KeyT]) -> dict[KeyT, list[Row]]:
    groups: dict[KeyT, list[Row]] = {key: [] for key in keys}
    for key, row in zip(keys, rows, strict=True):
        groups[key].append(row)
    return groups


def _verdicts(rows: Sequence[Row]) -> list[str]:
    return [row.judgement.verdict for row in rows]


def _furthest(cases: Sequence[Row]) -> str:
    """The settled case that is furthest from the law, in its own units."""
    settled = [row for row in cases if row.judgement.verdict in (CONFIRMED, CONTRADICTED)]
    if not settled:
        return "-"
    worst = max(settled, key=lambda row: abs(offset(row)[0]))
    judgement = worst.judgement
    return f"{judgement.measured:.4g} ({judgement.predicted}; {worst.check.case})"


def offset(row: Row) -> tuple[float, float]:
    """Measured minus predicted and the slack, in units of the tolerance; NaN for one-sided laws."""
    law, judgement = row.check.law, row.judgement
    slack = judgement.high - judgement.measured
    if isinstance(law, Proportional):
        return judgement.measured / law.tolerance, slack / law.tolerance
    if isinstance(law, Exponent) or (isinstance(law, Value) and law.side == "equal"):
        return (judgement.measured - law.value) / law.tolerance, slack / law.tolerance
    return math.nan, math.nan


def _case_table(cases: Sequence[Row]) -> list[str]:
    lines = [
        "| case | predicted | measured | interval | verdict | rejected | remarks |",
        "| - | - | - | - | - | - | - |",
    ]
    for row in cases:
        judgement = row.judgement
        rejected = f"{sum(row.rejected.values())} of {len(row.rejected)}" if row.rejected else "-"
        cells = (
            row.check.case,
            judgement.predicted,
            f"{judgement.measured:.4f}",
            f"{judgement.low:.4f} to {judgement.high:.4f}",
            judgement.verdict,
            rejected,
            judgement.detail,
        )
        lines.append(f"| {' | '.join(cells)} |".replace("||z_i||", "norm(z_i)"))
    return lines


def _hypotheses(row: Row) -> str:
    """The hypotheses that do not hold, or hold with a large constant; empty without any."""
    strained = [describe(c) for c in row.check.hypotheses if c.verdict != "holds"]
    return "; ".join(strained) or (ALL_HOLD if row.check.hypotheses else "")


def _figures(rows: Sequence[Row], files: Transaction) -> dict[str, str]:
    """Family or id of a claim -> file name of its figure."""
    names = {}
    for family, members in by_family(rows).items():
        figure = _overview(members)
        if figure is not None:
            names[family] = f"family_{family}.png"
            save(figure, files.path(names[family]))
    for claim, cases in by_claim(rows).items():
        checks = [row.check for row in cases if not row.check.unmet]
        kinds = {type(check.evidence) for check in checks}
        if len(checks) < MIN_CASES_FOR_FIGURE or kinds not in ({Curve}, {Collapse}):
            continue
        draw = slopes_figure if kinds == {Curve} else collapse_figure
        names[claim.id] = f"claim_{claim.id.replace('/', '-')}.png"
        save(draw(claim.sentence, checks), files.path(names[claim.id]))
    return names


def _overview(rows: Sequence[Row]) -> Figure | None:
    """Every case inside its hypotheses with a two-sided law; None if there is none."""
    inside = [row for row in rows if not row.check.unmet]
    placed = [(row.claim, *offset(row), row.judgement.verdict) for row in inside]
    shown = [place for place in placed if math.isfinite(place[1])]
    claims = list(dict.fromkeys(place[0] for place in shown))
    if not claims:
        return None
    labels = [f"{claim.sentence} ({claim.id})" for claim in claims]
    return overview_figure(labels, [(claims.index(claim), *rest) for claim, *rest in shown])
