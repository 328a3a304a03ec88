"""What docs/theory.md says about the claims, from a claims.json of ``batchlaw verify``.

python benchmarks/claims_table.py results/verify/claims.json               # writes docs/
python benchmarks/claims_table.py results/verify/claims.json reuse         # prints a table
python benchmarks/claims_table.py results/verify/claims.json outside
python benchmarks/claims_table.py results/verify/claims.json literature
python benchmarks/claims_table.py results/verify/claims.json --merge       # some families alone

The first form writes the compact table docs/claims_table.csv and, from that file alone, every block
between two markers in docs/theory.md. A test compares the page with the table. With --merge the
table keeps the rows of the families that the file does not have.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from batchlaw.evidence.claims.claim import CONFIRMED, CONTRADICTED, OPEN, OUTSIDE
from batchlaw.evidence.claims.registry import FAMILIES, all_claims

DOCS = Path(__file__).parents[1] / "docs"
TABLE, PAGE = DOCS / "claims_table.csv", DOCS / "theory.md"
# Families with a page of their own; the others are the paper's.
OWN_PAGES = ("reuse", "outside", "literature", "adam")
TEST = "test_claims.py::test_no_claim_is_contradicted_and_every_row_inside_has_wrong_laws"
MARKERS = re.compile(r"(<!-- claims: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
SHORT = {
    CONFIRMED: "confirmed",
    OPEN: "not settled",
    CONTRADICTED: "contradicted",
    OUTSIDE: "outside",
}

# Before hypotheses were measured for every row and wrong laws needed for every verdict: rows per
# family (confirmed, not settled, outside, planted laws, all of them rejected).
BEFORE = {
    "one-pass": (29, 3, 4, 83),
    "influence": (25, 2, 0, 60),
    "collapse": (19, 0, 0, 26),
    "multi-pass": (30, 4, 3, 88),
    "sketches": (38, 0, 0, 66),
    "probability": (0, 0, 0, 0),
    "reuse": (0, 0, 0, 0),
    "slips": (4, 0, 0, 9),
    "outside": (85, 0, 0, 151),
    "literature": (45, 0, 0, 137),
    "adam": (0, 0, 0, 0),
}
# Rows per claim then, and how many of them lay inside the hypotheses as they are measured now:
# data reuse ran at rates far above the largest norm's, the collapse had batches below one sample,
# and approximation + bias began at runs of 100 steps.
INSIDE_BEFORE = {
    "one-pass/bias": (8, 8),
    "one-pass/noise": (8, 8),
    "one-pass/variance": (8, 5),
    "one-pass/saturated-variance": (2, 2),
    "one-pass/cutoff": (2, 2),
    "one-pass/approximation-and-bias": (4, 0),
    "influence/pointwise": (4, 4),
    "influence/total": (4, 4),
    "influence/rate": (4, 4),
    "collapse/one-pass-variance": (6, 0),
    "collapse/fluctuation-without-replacement": (7, 0),
    "collapse/fluctuation-with-replacement": (6, 0),
    "multi-pass/gd-bias": (8, 0),
    "multi-pass/gd-variance": (8, 0),
    "multi-pass/fluctuation": (5, 0),
    "multi-pass/fluctuation-simple": (8, 0),
    "multi-pass/gd-variance-in-samples": (1, 0),
    "multi-pass/no-log-factor": (2, 0),
    "sketches/approximation": (8, 8),
    "sketches/drawn-approximation": (6, 6),
}
SWAPPED = "contradicted; swapped horizons confirmed"
# The rows that were "not settled" then: claim, pair, what was measured, and what the rule says
# about it without a verdict withheld.
NOT_SETTLED_BEFORE = (
    ("one-pass/variance", "a = 1.5, b = 1.25", "-0.404 for -0.333", CONTRADICTED),
    (
        "one-pass/variance",
        "a = 1.5, b = 1.5",
        "-0.353 for -0.333",
        SWAPPED,
    ),
    (
        "one-pass/variance",
        "a = 2, b = 1.5",
        "-0.530 for -0.500",
        SWAPPED,
    ),
    ("multi-pass/fluctuation-simple", "a = 1.5, b = 1.25", "-0.403 for -0.333", CONTRADICTED),
    ("multi-pass/fluctuation-simple", "a = 1.5, b = 1.5", "-0.351 for -0.333", "not settled"),
    (
        "multi-pass/fluctuation-simple",
        "a = 2, b = 1.5",
        "-0.529 for -0.500",
        SWAPPED,
    ),
    ("influence/longer-decay-noise", "a = 1.5, b = 1.5", "-0.375 for -0.333", "not settled"),
    ("influence/longer-decay-fluctuation", "a = 1.5, b = 1.5", "-0.374 for -0.333", "not settled"),
    ("multi-pass/no-log-factor", "a = 2, b = 1.5, M = 12", "0.062 for 0", "not settled"),
)

FIVE_COLUMNS = "| --- | --- | --- | --- | --- |"

Row = dict[str, str]


def compact(case: dict) -> Row:
    """One line of the committed table."""
    unmet = [
        f"{c['name']}: {c['measured']:.3g} against {c['limit']:.3g}"
        for c in case["conditions"]
        if c["unmet"]
    ]
    left = [name for name, rejected in case["rejected"].items() if not rejected]
    numbers = {name: _number(case[name]) for name in ("law_value", "measured", "low", "high")}
    return {
        "id": case["id"],
        "case": case["case"],
        "verdict": SHORT[case["verdict"]],
        "law": case["law"],
        **numbers,
        "planted": str(len(case["rejected"])),
        "not_rejected": "; ".join(left),
        "conditions": str(len(case["conditions"])),
        "unmet": "; ".join(unmet),
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5g}"


def read_table() -> list[Row]:
    """The committed table."""
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def blocks(rows: list[Row]) -> dict[str, str]:
    """Every generated block of docs/theory.md by name."""
    return {
        "counts": _counts_sentence(rows),
        "verdicts": _verdicts(rows),
        "inside": _inside(rows),
        "settled": _formerly_open(rows),
        "table": table([name for name in FAMILIES if name not in OWN_PAGES], rows),
        "outside": _listed(rows, "outside", "unmet"),
        "open": _open_rows(rows),
    }


def filled(page: str, rows: list[Row]) -> str:
    """A page with its blocks written anew."""
    contents = blocks(rows)
    return MARKERS.sub(lambda m: f"{m[1]}{contents[m[2]]}\n{m[4]}", page)


def _counts_sentence(rows: list[Row]) -> str:
    verdicts = Counter(row["verdict"] for row in rows)
    inside = [row for row in rows if row["verdict"] != "outside"]
    planted = sum(int(row["planted"]) for row in inside)
    left = sum(len(_split(row["not_rejected"])) for row in inside)
    confirmed = [row for row in rows if row["verdict"] == "confirmed"]
    least = min(int(row["planted"]) for row in inside)
    return (
        f"At full size there are {len(rows)} rows of {len({row['id'] for row in rows})} claims: "
        + ", ".join(f"{verdicts[name]} {name}" for name in SHORT.values())
        + f". Every row inside its hypotheses has at least {least} planted wrong "
        f"law{'s' if least > 1 else ''}, {planted} in all; {planted - left} are rejected, and all "
        f"{sum(int(row['planted']) for row in confirmed)} of the confirmed rows."
    )


def _verdicts(rows: list[Row]) -> str:
    lines = [
        "| family | rows | confirmed | not settled | contradicted | outside | laws rejected |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    totals = []
    for family, (confirmed, undecided, outside, planted) in BEFORE.items():
        members = [row for row in rows if row["id"].startswith(f"{family}/")]
        verdicts = Counter(row["verdict"] for row in members)
        all_planted = sum(int(row["planted"]) for row in members)
        left = sum(len(_split(row["not_rejected"])) for row in members)
        before = (
            confirmed + undecided + outside,
            confirmed,
            undecided,
            0,
            outside,
            planted,
            planted,
        )
        after = (
            len(members),
            *(verdicts[name] for name in SHORT.values()),
            all_planted - left,
            all_planted,
        )
        totals.append((before, after))
        lines.append(_before_after(family, before, after))
    before, after = (tuple(map(sum, zip(*side, strict=True))) for side in zip(*totals, strict=True))
    return "\n".join([*lines, _before_after("all", before, after)])


def _before_after(name: str, before: tuple[int, ...], after: tuple[int, ...]) -> str:
    cells = [f"{b} → {a}" for b, a in zip(before[:5], after[:5], strict=True)]
    rejected = f"{before[5]} of {before[6]} → {after[5]} of {after[6]}"
    return f"| {name} | {' | '.join(cells)} | {rejected} |"


def _inside(rows: list[Row]) -> str:
    lines = ["| claim | inside before | inside now |", "| --- | --- | --- |"]
    for id_, members in _by_id(rows).items():
        if all(row["conditions"] == "0" for row in members) and id_ not in INSIDE_BEFORE:
            continue
        now = sum(row["verdict"] != "outside" for row in members)
        before = "{1} of {0}".format(*INSIDE_BEFORE[id_]) if id_ in INSIDE_BEFORE else "-"
        lines.append(f"| {id_} | {before} | {now} of {len(members)} |")
    return "\n".join(lines)


def _formerly_open(rows: list[Row]) -> str:
    lines = [
        "| claim | case | measured before | by the rule | now |",
        "| --- | --- | --- | --- | --- |",
    ]
    for id_, pair, measured, rule in NOT_SETTLED_BEFORE:
        same = [row for row in rows if row["id"] == id_ and row["case"].startswith(f"{pair},")]
        now = "; ".join(dict.fromkeys(_reason(row) for row in same))
        lines.append(f"| {id_} | {pair} | {measured} | {rule} | {now} |")
    return _plain("\n".join(lines))


def _reason(row: Row) -> str:
    why = row["unmet"] or (row["not_rejected"] and f"does not reject {row['not_rejected']}")
    return f"{row['verdict']} ({why})" if why else f"{row['verdict']}, {row['measured']}"


def _listed(rows: list[Row], verdict: str, column: str) -> str:
    lines = ["| claim | case | measured | hypothesis |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {row['id']} | {row['case']} | {row['measured']} | {row[column]} |"
        for row in rows
        if row["verdict"] == verdict
    ]
    return _plain("\n".join(lines))


def _open_rows(rows: list[Row]) -> str:
    lines = ["| claim | case | law | measured | left standing |", FIVE_COLUMNS]
    lines += [
        f"| {row['id']} | {row['case']} | {row['law_value'] or row['law']} | "
        f"{row['measured']} in [{row['low']}, {row['high']}] | {row['not_rejected'] or '-'} |"
        for row in rows
        if row["verdict"] == "not settled"
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Without the bars of a norm, which would end a cell."""
    return text.replace("||z_i||", "norm(z_i)")


def table(families: Iterable[str], rows: list[Row]) -> str:
    """The claims of these families, with what was measured."""
    families = tuple(families)
    own = set(families) <= set(OWN_PAGES)
    lines = (
        ["| id | claim | measured |", "| --- | --- | --- |"]
        if own
        else [
            "| id | statement | measured by | test | measured |",
            "| --- | --- | --- | --- | --- |",
        ]
    )
    cases = _by_id(rows)
    for claim in all_claims().values():
        if claim.family not in families or claim.id not in cases:
            continue
        cells = [f"`{claim.id}`", claim.sentence, summary(cases[claim.id])]
        if not own:
            tasks = FAMILIES[claim.family]
            cells[1] += f" ({claim.where})"
            cells[2:2] = [f"`{tasks.__module__}.{tasks.__name__}`", f"`{TEST}`"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def summary(cases: list[Row]) -> str:
    """Verdicts and numbers of one claim."""
    confirmed = [case for case in cases if case["verdict"] == "confirmed"]
    inside = [case for case in cases if case["verdict"] != "outside"]
    outside = f"; {len(cases) - len(inside)} outside" if len(inside) < len(cases) else ""
    if not inside:
        return f"none of {len(cases)} inside the hypotheses"
    numbers = f"; {measured(confirmed)}" if confirmed else ""
    return f"{len(confirmed)} of {len(inside)} confirmed{outside}{numbers}"


def measured(cases: list[Row]) -> str:
    """The largest distance of a case from its law, or the range of the estimates."""
    parts = []
    for law in dict.fromkeys(case["law"] for case in cases):
        same = [case for case in cases if case["law"] == law]
        values = [float(case["measured"]) for case in same]
        if law == "Exponent":
            off = [abs(float(case["measured"]) - float(case["law_value"])) for case in same]
            parts.append(f"slopes within {max(*off, 1e-4):.4f}")
        elif law == "Proportional":
            parts.append(f"deviations within {100 * max(values):.1f} %")
        elif len(values) == 1:
            half = 0.5 * (float(same[0]["high"]) - values[0])
            parts.append(f"{values[0]:.4f} ± {half:.4f}" if half else f"{values[0]:.4f}")
        else:
            parts.append(f"{min(values):.3f} to {max(values):.3f}")
    return "; ".join(parts)


def _by_id(rows: list[Row]) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["id"], []).append(row)
    return grouped


def _split(names: str) -> list[str]:
    return names.split("; ") if names else []


def merged(old: list[Row], new: list[Row]) -> list[Row]:
    """The new rows, and the old ones of all other families, in the families' order."""
    measured = {_family(row) for row in new}
    rows = new + [row for row in old if _family(row) not in measured]
    return sorted(rows, key=lambda row: list(FAMILIES).index(_family(row)))


def _family(row: Row) -> str:
    return row["id"].partition("/")[0]


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_text())
    rows = [compact(case) for case in document["claims"]]
    merge = "--merge" in sys.argv[2:]
    if families := [name for name in sys.argv[2:] if name != "--merge"]:
        print(table(families, rows))
        return
    if document["size"] != "full":
        raise SystemExit("the tables of docs/ come from the full size")
    if merge:
        rows = merged(read_table(), rows)
    with TABLE.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    PAGE.write_text(filled(PAGE.read_text(), read_table()))
    print(f"{TABLE} and {PAGE}: {len(rows)} rows, {document['seconds']:.0f} s of one core")


if __name__ == "__main__":
    main()
