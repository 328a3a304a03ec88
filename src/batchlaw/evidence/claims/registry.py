"""Every family of claims, and every claim by its id."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw.evidence.claims import (
    adam,
    collapse,
    influence_law,
    literature,
    one_pass,
    outside,
    paper_slips,
    reuse,
    reuse_departures,
    sketch_probability,
    sketches,
)
from batchlaw.evidence.claims.check_settings import FULL, QUICK, CheckSize
from batchlaw.evidence.claims.claim import Claim, Task

# A claim is registered through the tasks that list it.
FAMILIES: dict[str, Callable[[CheckSize], Sequence[Task]]] = {
    "one-pass": one_pass.tasks,
    "influence": influence_law.tasks,
    "collapse": collapse.tasks,
    "multi-pass": reuse.tasks,
    "sketches": sketches.tasks,
    "probability": sketch_probability.tasks,
    "reuse": reuse_departures.tasks,
    "slips": paper_slips.tasks,
    "outside": outside.tasks,
    "literature": literature.tasks,
    "adam": adam.tasks,
}


def all_claims() -> dict[str, Claim]:
    """Every claim by id, family by family."""
    return _claims_measured((FULL, QUICK))


def choose_claims(
    size: CheckSize,
    families: Collection[str] | None = None,
    ids: Collection[str] | None = None,
) -> dict[str, Claim]:
    """The claims of these families and those with these ids; all of this size by default."""
    measured = _claims_measured((size,))
    if families is None and ids is None:
        return measured
    for name in families or ():
        checks.choice("family", name, FAMILIES)
    for id_ in ids or ():
        if id_ not in measured:
            raise _refusal(id_)
    chosen = {
        id_: claim
        for id_, claim in measured.items()
        if claim.family in (families or ()) or id_ in (ids or ())
    }
    if not chosen:
        raise InputError("family", f"must be at least one of {', '.join(FAMILIES)}", "none")
    return chosen


def _claims_measured(sizes: Sequence[CheckSize]) -> dict[str, Claim]:
    return {
        claim.id: claim
        for tasks in FAMILIES.values()
        for size in sizes
        for task in tasks(size)
        for claim in task.claims
    }


def _refusal(id_: str) -> InputError:
    """For an id that is unknown, or not measured at this size."""
    known = all_claims()
    if id_ in known:
        hint = f"leave {arg('quick')} out"
        return InputError("claim", "must be one that is measured at this size", repr(id_), hint)
    family = id_.partition("/")[0]
    if family in FAMILIES:
        names = [name for name, claim in known.items() if claim.family == family]
        return InputError("claim", f"must be one of {', '.join(names)}", repr(id_))
    needed = f"must be family/name, with a family of {', '.join(FAMILIES)}"
    return InputError("claim", needed, repr(id_))
