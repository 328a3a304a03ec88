"""Every two-sided bound of the paper's appendix that can be computed; one file per family.

Each function names its lemma and returns a ``Bound``: both sides, the exact number between them
if it is known, and whether the hypotheses hold. docs/bounds.md has a table of all of them.
Public as ``bl.bounds``.
"""

from batchlaw.theory.bounds.bias import (
    gd_bias_lower,
    gd_bias_order,
    gd_bias_upper,
    one_pass_bias_lower,
    one_pass_bias_simple,
    one_pass_bias_upper,
)
from batchlaw.theory.bounds.bound import Bound, Condition, tightest
from batchlaw.theory.bounds.fluctuation import (
    batch_covariance,
    conditional_fluctuation,
    expected_fluctuation,
    fluctuation_order,
    leave_one_out,
    lower_covariance_factor,
    reuse_exponent,
    transition_covariance,
)
from batchlaw.theory.bounds.gd_variance import (
    covariance_replacement,
    gd_variance,
    gd_variance_order,
    gd_variance_spectral,
    largest_norm,
    regularity,
    regularized_comparison,
)
from batchlaw.theory.bounds.hypotheses import (
    expected_largest_norm,
    multi_pass_hypotheses,
    one_pass_hypotheses,
    top_sample_eigenvalue,
)
from batchlaw.theory.bounds.kernels import (
    cross_kernel_comparison,
    empirical_kernels,
    kernel_comparison,
)
from batchlaw.theory.bounds.one_pass import (
    additive_noise,
    covariance_fluctuation,
    effective_batch_range,
    fourth_moment,
    raw_kernel,
    raw_variance,
    residual_covariance,
    uniform_covariance,
)
from batchlaw.theory.bounds.schedule import (
    influence_shape,
    power_law_kernel_mass,
    product_calculus,
    wsd_decay_mass,
    wsd_kernel_mass,
    wsd_mass,
)
from batchlaw.theory.bounds.sketch import (
    approximation_order,
    approximation_spectral,
    approximation_upper,
    expected_approximation,
    head_concentration,
    head_tail_comparison,
    head_tail_resolvent,
    power_law_spectrum,
    tail_concentration,
    tail_spectral_ratio,
)

__all__ = [
    "Bound",
    "Condition",
    "additive_noise",
    "approximation_order",
    "approximation_spectral",
    "approximation_upper",
    "batch_covariance",
    "conditional_fluctuation",
    "covariance_fluctuation",
    "covariance_replacement",
    "cross_kernel_comparison",
    "effective_batch_range",
    "empirical_kernels",
    "expected_approximation",
    "expected_fluctuation",
    "expected_largest_norm",
    "fluctuation_order",
    "fourth_moment",
    "gd_bias_lower",
    "gd_bias_order",
    "gd_bias_upper",
    "gd_variance",
    "gd_variance_order",
    "gd_variance_spectral",
    "head_concentration",
    "head_tail_comparison",
    "head_tail_resolvent",
    "influence_shape",
    "kernel_comparison",
    "largest_norm",
    "leave_one_out",
    "lower_covariance_factor",
    "multi_pass_hypotheses",
    "one_pass_bias_lower",
    "one_pass_bias_simple",
    "one_pass_bias_upper",
    "one_pass_hypotheses",
    "power_law_kernel_mass",
    "power_law_spectrum",
    "product_calculus",
    "raw_kernel",
    "raw_variance",
    "regularity",
    "regularized_comparison",
    "residual_covariance",
    "reuse_exponent",
    "tail_concentration",
    "tail_spectral_ratio",
    "tightest",
    "top_sample_eigenvalue",
    "transition_covariance",
    "uniform_covariance",
    "wsd_decay_mass",
    "wsd_kernel_mass",
    "wsd_mass",
]
