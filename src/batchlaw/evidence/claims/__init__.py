"""The paper's claims, each measured and judged: one file per family, all in ``registry``."""
