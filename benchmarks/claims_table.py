"""The tables of claims in docs/, from a claims.json of ``batchlaw verify``.

python benchmarks/claims_table.py results/verify/claims.json               # docs/theory.md
python benchmarks/claims_table.py results/verify/claims.json reuse         # docs/reuse.md
python benchmarks/claims_table.py results/verify/claims.json outside       # docs/outside.md
python benchmarks/claims_table.py results/verify/claims.json literature    # docs/literature.md
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from batchlaw.evidence.claims.registry import FAMILIES, all_claims

# Families with a page of their own; the others are the paper's.
OWN_PAGES = ("reuse", "outside", "literature")
TEST = "test_claims.py::test_no_claim_is_contradicted_and_every_planted_wrong_law_is"


def measured(cases: list[dict]) -> str:
    """The largest distance of a case from its law, or the range of the estimates."""
    values = [case["measured"] for case in cases]
    law = cases[0]["law"]
    if law == "Exponent":
        off = [abs(case["measured"] - case["law_value"]) for case in cases]
        return f"slopes within {max(*off, 1e-4):.4f}"
    if law == "Proportional":
        return f"deviations within {100 * max(values):.1f} %"
    if len(values) == 1:
        half = 0.5 * (cases[0]["high"] - values[0])
        return f"{values[0]:.4f} ± {half:.4f}" if half else f"{values[0]:.4f}"
    return f"{min(values):.3f} to {max(values):.3f}"


def summary(cases: list[dict]) -> str:
    """Verdicts and numbers of one claim."""
    confirmed = [case for case in cases if case["verdict"] == "confirmed"]
    if not confirmed:
        return f"{len(cases)} named, none fitted"
    return f"{len(confirmed)} of {len(cases)} confirmed; {measured(confirmed)}"


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_text())
    families = sys.argv[2:] or [name for name in FAMILIES if name not in OWN_PAGES]
    cases: dict[str, list[dict]] = {}
    for case in document["claims"]:
        cases.setdefault(case["id"], []).append(case)
    print(document["verdicts"], f"{document['seconds']:.0f} s")
    if set(families) <= set(OWN_PAGES):
        print("| id | claim | measured |\n| --- | --- | --- |")
    else:
        print("| id | statement | measured by | test | measured |")
        print("| --- | --- | --- | --- | --- |")
    for claim in all_claims().values():
        if claim.family not in families:
            continue
        row = [f"`{claim.id}`", claim.sentence, summary(cases[claim.id])]
        if claim.family not in OWN_PAGES:
            tasks = FAMILIES[claim.family]
            row[1] += f" ({claim.where})"
            row[2:2] = [f"`{tasks.__module__}.{tasks.__name__}`", f"`{TEST}`"]
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
