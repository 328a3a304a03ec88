"""Adam: exponents, effective rates and optimal batches, by the mean field on power laws.

The laws are those of ``batchlaw.theory.adam_limit``, derived for label noise that dominates the
second moment. SGD's laws are among the wrong ones that the evidence must reject.
"""

from __future__ import annotations

from batchlaw.evidence.claims.adam import effective, exponents, rules
from batchlaw.evidence.claims.check_settings import CheckSize
from batchlaw.evidence.claims.claim import Task


def tasks(size: CheckSize) -> list[Task]:
    """Independent tasks; nothing is drawn."""
    return [*exponents.tasks(size.quick), *effective.tasks(size.quick), *rules.tasks(size.quick)]
