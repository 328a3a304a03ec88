"""All compiled loops: arrays in, arrays out, no checks. One file per family.

Letters as in the paper: M directions with eigenvalues ``mu`` and multiplicities n_j, T steps
with step sizes ``rates`` (gamma_t), S schedules.
"""
