"""The paper's claims, measured and judged: one module per family, collected in ``registry``."""
