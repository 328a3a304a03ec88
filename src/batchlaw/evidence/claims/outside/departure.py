"""One assumption given up, and the claims about what survives without it."""

from __future__ import annotations

from dataclasses import dataclass

from batchlaw.evidence.claims.claim import Claim


@dataclass(frozen=True)
class Departure:
    """What is put in the place of one of the paper's assumptions.

    Attributes
    ----------
    id, name
        For the ids of its claims, and for their sentences.
    where
        The assumption.
    """

    id: str
    name: str
    where: str

    def claim(self, name: str, sentence: str) -> Claim:
        """A statement about this departure: ``outside/<departure>-<name>``."""
        return Claim(f"outside/{self.id}-{name}", f"outside: {self.name}: {sentence}", self.where)
