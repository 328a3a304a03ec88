"""Spectrum and influence estimated from data: a pilot sample of features, or a model.

Public as ``bl.estimate``.
"""

from batchlaw.from_data.band import InfluenceBand, influence_band
from batchlaw.from_data.data_kernels import data_kernels
from batchlaw.from_data.estimated_spectrum import (
    EstimatedSpectrum,
    check_features,
    estimate_spectrum,
    population_spectrum,
    sample_eigenvalues,
)
from batchlaw.from_data.feature_file import read_features
from batchlaw.from_data.laws.profiles import law_profiles
from batchlaw.from_data.regret import Regret, plug_in_regret
from batchlaw.from_data.tail import Tail, fit_tail
from batchlaw.influences.adaptive import adam_influence
from batchlaw.model.model_spectrum import ModelSpectrum

__all__ = [
    "EstimatedSpectrum",
    "InfluenceBand",
    "ModelSpectrum",
    "Regret",
    "Tail",
    "adam_influence",
    "check_features",
    "data_kernels",
    "estimate_spectrum",
    "fit_tail",
    "influence_band",
    "law_profiles",
    "plug_in_regret",
    "population_spectrum",
    "read_features",
    "sample_eigenvalues",
]
