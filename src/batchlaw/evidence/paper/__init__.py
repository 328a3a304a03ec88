"""The paper's experiments (section 4, appendix L): one file each, and ``run`` for all."""
