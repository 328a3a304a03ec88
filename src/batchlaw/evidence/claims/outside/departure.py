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
    """

    id: str
    name: str
    where: str

    def claim(self, name: str, sentence: str) -> Claim:
        """A statement about this departure: ``outside/<departure>-<name>``."""
        return Claim(f"outside/{self.id}-{name}", f"outside: {self.name}: {sentence}", self.where)
