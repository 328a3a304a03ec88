"""The claims table as CSV, JSON and a Markdown report with pictures."""

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
from batchlaw.evidence.claims.check_settings import ALL_HOLD, CheckSize
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
)
from batchlaw.evidence.claims.figures import collapse_figure, overview_figure, slopes_figure
from batchlaw.evidence.claims.run import Row
from batchlaw.plots.common import save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KeyT = TypeVar("KeyT")

# Cases that are worth a picture of their own.
SEVERAL = 2

INTRODUCTION = """\
A slope is a local log-log regression over the largest sizes; its interval is two standard errors
over draws, where there are any, and the drift from the window before. **confirmed**: within the
tolerance, and the interval is no wider. **contradicted**: the law lies outside the interval by
more than the tolerance, or the other horizon fits more than twice as closely. **not settled at
this size**: neither. A check is worth what it can reject: the last column counts the wrong laws
(exponent off by 0.1, horizons swapped, 1/B for rho, ...) that the same evidence contradicts.
"""


def write(
    rows: Sequence[Row], size: CheckSize, seconds: float, output: OutputDirectory
) -> list[Path]:
    """claims.csv, claims.json, report.md and its figures, all or none of them.

    Figures of an earlier report in the same place go.
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
    claim, check, found = row.claim, row.check, row.judgement
    return {
        "id": claim.id,
        "family": claim.family,
        "claim": claim.sentence,
        "where": claim.where,
        "case": check.case,
        "predicted": found.predicted,
        "measured": _finite(found.measured),
        "low": _finite(found.low),
        "high": _finite(found.high),
        "verdict": found.verdict,
        "wrong_laws_rejected": sum(row.rejected.values()),
        "wrong_laws": len(row.rejected),
        "hypotheses": check.hypotheses,
        "detail": found.detail,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _law(row: Row) -> dict[str, Any]:
    """The law as data: its kind, and its value where it has one."""
    law = row.check.law
    value = float(law.value) if isinstance(law, Exponent | Value) else None
    return {"law": type(law).__name__, "law_value": value}


def _document(rows: Sequence[Row], size: CheckSize, seconds: float) -> dict[str, Any]:
    return {
        "size": "quick" if size.quick else "full",
        "seconds": round(seconds, 1),
        "verdicts": counts(_verdicts(rows)),
        "claims": [record(row) | _law(row) for row in rows],
        "versions": {
            "batchlaw": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def counts(verdicts: Sequence[str]) -> dict[str, int]:
    """How many of each verdict, in their order."""
    found = Counter(verdicts)
    return {verdict: found[verdict] for verdict in VERDICTS if found[verdict]}


def markdown(rows: Sequence[Row], size: CheckSize, seconds: float, figures: dict[str, str]) -> str:
    """The report: a summary a claim, then every case, with the pictures."""
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
    """One line a claim, in Markdown."""
    lines = [
        "| id | claim | where | verdicts | furthest off | wrong laws rejected |",
        "| - | - | - | - | - | - |",
    ]
    for claim, cases in by_claim(rows).items():
        verdicts = ", ".join(f"{n} {name}" for name, n in counts(_verdicts(cases)).items())
        planted = [ok for case in cases for ok in case.rejected.values()]
        rejected = f"{sum(planted)} of {len(planted)}" if planted else "-"
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
    found = worst.judgement
    return f"{found.measured:.4g} ({found.predicted}; {worst.check.case})"


def offset(row: Row) -> tuple[float, float]:
    """Measured minus predicted and the slack, in units of the tolerance; NaN for one-sided laws."""
    law, found = row.check.law, row.judgement
    slack = found.high - found.measured
    if isinstance(law, Proportional):
        return found.measured / law.tolerance, slack / law.tolerance
    if isinstance(law, Exponent) or (isinstance(law, Value) and law.side == "equal"):
        return (found.measured - law.value) / law.tolerance, slack / law.tolerance
    return math.nan, math.nan


def _case_table(cases: Sequence[Row]) -> list[str]:
    lines = [
        "| case | predicted | measured | interval | verdict | rejected | remarks |",
        "| - | - | - | - | - | - | - |",
    ]
    for row in cases:
        found = row.judgement
        rejected = f"{sum(row.rejected.values())} of {len(row.rejected)}" if row.rejected else "-"
        remarks = "; ".join(text for text in (found.detail, _hypotheses(row)) if text)
        measured, interval = f"{found.measured:.4f}", f"{found.low:.4f} to {found.high:.4f}"
        if not math.isfinite(found.measured):
            measured = interval = "-"
        cells = (row.check.case, found.predicted, measured, interval, found.verdict, rejected)
        lines.append(f"| {' | '.join(cells)} | {remarks} |".replace("||z_i||", "norm(z_i)"))
    return lines


def _hypotheses(row: Row) -> str:
    weak = row.check.hypotheses
    return f"hypotheses: {weak}" if weak not in ("", ALL_HOLD) else ""


def _figures(rows: Sequence[Row], files: Transaction) -> dict[str, str]:
    """Family or id of a claim -> file name of its picture."""
    named = {}
    for family, members in by_family(rows).items():
        figure = _overview(members)
        if figure is not None:
            named[family] = f"family_{family}.png"
            save(figure, files.path(named[family]))
    for claim, cases in by_claim(rows).items():
        checks = [row.check for row in cases]
        kinds = {type(check.evidence) for check in checks}
        if len(cases) < SEVERAL or kinds not in ({Curve}, {Collapse}):
            continue
        draw = slopes_figure if kinds == {Curve} else collapse_figure
        named[claim.id] = f"claim_{claim.id.replace('/', '-')}.png"
        save(draw(claim.sentence, checks), files.path(named[claim.id]))
    return named


def _overview(rows: Sequence[Row]) -> Figure | None:
    """Every case of the claims that are two-sided."""
    placed = [(row.claim, *offset(row), row.judgement.verdict) for row in rows]
    shown = [place for place in placed if math.isfinite(place[1])]
    claims = list(dict.fromkeys(place[0] for place in shown))
    if not claims:
        return None
    labels = [f"{claim.sentence} ({claim.id})" for claim in claims]
    return overview_figure(labels, [(claims.index(claim), *rest) for claim, *rest in shown])
