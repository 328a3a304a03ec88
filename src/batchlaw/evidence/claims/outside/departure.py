"""One assumption dropped, and the claims about what survives without it."""

from __future__ import annotations

from dataclasses import dataclass

from batchlaw.evidence.claims.claim import Claim


@dataclass(frozen=True)
class Departure:
    """A replacement for one of the paper's assumptions.

    Attributes
    ----------
    id, name
        Used in the ids of its claims, and in their sentences.
    where
        The assumption that is replaced.
    family
        The family of claims that it belongs to.
    """

    id: str
    name: str
    where: str
    family: str = "outside"

    def claim(self, name: str, sentence: str) -> Claim:
        """A statement about this departure: ``<family>/<departure>-<name>``."""
        full = f"{self.family}: {self.name}: {sentence}"
        return Claim(f"{self.family}/{self.id}-{name}", full, self.where)
