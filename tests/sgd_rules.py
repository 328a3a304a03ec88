"""Momentum in its forms and averages of iterates, as keywords for runs of T updates."""

import numpy as np

from batchlaw.schedule.averages import ema, tail_average

T = 9
RULES = [
    {"momentum": 0.7},
    {"momentum": 0.6, "nesterov": True},
    {"momentum": 0.5, "pytorch": True},
    {"momentum": np.linspace(0.1, 0.8, T), "nesterov": True, "pytorch": True},
    {"average": tail_average(T, 0.5)},
    {"momentum": 0.8, "average": ema(T, 0.6)},
    {"momentum": 0.5, "nesterov": True, "average": tail_average(T, 0.7)},
]
