"""Every compiled loop: arrays in, arrays out, no checks. One file a family.

Letters as in the paper: M directions with eigenvalues ``mu``, T steps with step
sizes ``rates`` (gamma_t), S schedules. ``many`` is the multiplicity n_j of direction j.
"""
