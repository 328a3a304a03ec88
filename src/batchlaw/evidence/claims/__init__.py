"""The paper's claims, each measured and judged. One file a family; ``run`` runs them all."""
