"""The table "What was measured" of docs/theory.md, from a claims.json of ``batchlaw verify``.

python benchmarks/claims_table.py results/verify/claims.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

MODULES = {
    "one-pass": "one_pass",
    "influence": "influence_law",
    "collapse": "collapse",
    "multi-pass": "reuse",
    "sketches": "sketches",
    "slips": "slips",
}
TEST = "test_claims.py::test_no_claim_is_contradicted_and_every_planted_wrong_law_is"


def measured(cases: list[dict]) -> str:
    """The confirmed case that is furthest from its law, or the range of the estimates."""
    values = [case["measured"] for case in cases]
    predicted = [case["predicted"] for case in cases]
    if predicted[0].startswith("exponent"):
        off = [abs(v - float(p.split()[1])) for v, p in zip(values, predicted, strict=True)]
        return f"slopes within {max(*off, 1e-4):.4f}"
    if predicted[0].startswith("proportional"):
        return f"deviations within {100 * max(values):.1f} %"
    if len(values) == 1:
        half = 0.5 * (cases[0]["high"] - values[0])
        return f"{values[0]:.4f} ± {half:.4f}" if half else f"{values[0]:.4f}"
    return f"{min(values):.3f} to {max(values):.3f}"


def main() -> None:
    document = json.loads(Path(sys.argv[1]).read_text())
    claims: dict[str, list[dict]] = {}
    for case in document["claims"]:
        if case["family"] in MODULES:
            claims.setdefault(case["claim"], []).append(case)
    print(document["verdicts"], f"{document['seconds']:.0f} s")
    print("| statement | measured by | test | measured |\n| --- | --- | --- | --- |")
    for claim, cases in claims.items():
        confirmed = [case for case in cases if case["verdict"] == "confirmed"]
        where, module = cases[0]["where"], MODULES[cases[0]["family"]]
        said = f"{len(confirmed)} of {len(cases)} confirmed"
        if confirmed:
            said += f"; {measured(confirmed)}"
        else:
            said = f"{len(cases)} named, none fitted"
        print(
            f"| {claim} ({where}) | `batchlaw.evidence.claims.{module}.tasks` | `{TEST}` | {said} |"
        )


if __name__ == "__main__":
    main()
