"""Public names in two tiers: those of ``bl`` itself, and those of its public submodules."""

import subprocess
import sys

import pytest

import batchlaw as bl

TOP = """
    Case InputError Limits Plan PowerLaw Problem Risk Run TrainingLaw Unstable UpdateRule
    __version__ adam allocate constant cosine effective_batch effective_fluctuation ema fit_law
    gradient_descent_risk influence influence_proxy linear multi_pass_law multi_pass_risk
    one_pass_law one_pass_risk optimal_batches plan polynomial read_run schedule_families sgd
    simulate_gradient_descent simulate_multi_pass simulate_one_pass step tail_average wsd
"""
SUBMODULES = {
    "bounds": """
        Bound Condition additive_noise approximation_order approximation_spectral
        approximation_upper batch_covariance conditional_fluctuation
        covariance_fluctuation covariance_replacement cross_kernel_comparison
        decay_phase_influence effective_batch_range empirical_kernels expected_approximation
        expected_fluctuation expected_largest_norm fluctuation_order fourth_moment
        gd_bias_lower gd_bias_order gd_bias_upper gd_variance gd_variance_order
        gd_variance_spectral head_concentration head_tail_comparison head_tail_resolvent
        influence_shape kernel_comparison largest_norm largest_norm_tail leave_one_out
        lower_covariance_factor multi_pass_hypotheses one_pass_bias_lower
        one_pass_bias_simple one_pass_bias_upper one_pass_hypotheses phase_means
        power_law_kernel_mass power_law_spectrum product_calculus raw_kernel
        raw_variance regularity regularized_comparison residual_covariance
        reuse_exponent tail_concentration tail_spectral_ratio tightest
        top_sample_eigenvalue transition_covariance uniform_covariance wsd_decay_mass
        wsd_kernel_mass wsd_mass
    """,
    "datasets": """
        batch_schedules blocks pilot_spectrum
    """,
    "design": """
        BatchChoice Compared CostModel Curve GradientDescent MultiPass NextRuns NoiseScale
        OnePass Optimum Parts Procedure Quantiles Reshuffled RunChoice RunSet Saturation
        Sensitivity ShortRun Worth WorthMap
        best_batch best_run_length best_run_length_and_rate by_law compare exact frontier
        largest_harmless_batch model_noise next_runs noise_scales paired_difference
        plan_weights reducible_curve risk_quantiles run_length_choices saturation saturation_batch
        sensitivity simulate_procedure worth worth_map
    """,
    "estimate": """
        EstimatedSpectrum InfluenceBand ModelSpectrum Regret Tail adam_influence
        check_features data_kernels estimate_spectrum fit_tail influence_band law_profiles
        plug_in_regret population_spectrum read_features sample_eigenvalues
    """,
    "plots": """
        along_runs best_batches collapse_concept comparison_figure frontier_figure horizons_concept
        influence_concept plan_figure regret_figure sample_worth save schedule_differences
        static_batch_figure trajectory_figure worth_figure
    """,
    "torch_support": """
        MicroBatch PlanRates PlanSampler
    """,
    "trainers": """
        Export Layout Match TRAINERS Trainer export register
    """,
}


def names(text):
    return sorted(text.split())


def test_the_names_at_the_top_are_pinned():
    assert sorted(bl.__all__) == names(TOP)


def test_tab_shows_the_public_names_and_submodules_alone():
    assert dir(bl) == sorted([*bl.__all__, *SUBMODULES])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.torch] if name == "torch_support" else [])
        for name in SUBMODULES
    ],
)
def test_the_names_of_a_public_submodule_are_pinned(name):
    module = getattr(bl, name)
    assert sorted(module.__all__) == names(SUBMODULES[name])
    assert all(hasattr(module, public) for public in module.__all__)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'sweep_everything'"):
        _ = bl.sweep_everything


@pytest.mark.process
def test_a_public_submodule_needs_no_import_of_its_own():
    code = "import batchlaw as bl; print(bl.bounds.tightest.__name__, bl.estimate.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["tightest", "batchlaw.from_data"]
