"""What is registered at run time reaches help, sweeps, the page's schema and the documentation."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

RATE = """
from batchlaw._base.words import REAL, Word
from batchlaw.schedule.registry import register
import numpy as np

def sawtooth(steps, peak, teeth=4.0):
    '''Falls to zero again and again.'''
    return peak * (1.0 - (np.arange(steps) * teeth / steps) % 1.0)

register(sawtooth, Word("teeth", REAL, "How often the rate falls.", low=1, high=50))
"""
RULE = """
from dataclasses import dataclass, field
from typing import ClassVar
from batchlaw._base.words import REAL, Word
from batchlaw.schedule.update_rule import WORD, UpdateRule, register_rule

@dataclass(frozen=True, eq=False)
class Lion(UpdateRule):
    name: ClassVar[str] = "lion"
    plain: ClassVar[bool] = False
    interpolation: float = field(
        default=0.9, metadata={WORD: Word("interpolation", REAL, "Of Lion.", low=0, high=1)}
    )
    def readout(self, steps): return None
    def title(self, procedure): return f"{procedure} with Lion"
    def assumption(self): return "Lion"

register_rule(Lion)
"""
PROCEDURE = """
from dataclasses import dataclass, field
from typing import ClassVar
from batchlaw._base.words import COUNT, Word
from batchlaw.risk.procedures import OnePass
from batchlaw.risk.procedure import register_procedure
from batchlaw.schedule.update_rule import WORD

@dataclass(frozen=True)
class Replayed(OnePass):
    '''Every sample is used twice in a row.'''
    name: ClassVar[str] = "replayed"
    title: ClassVar[str] = "replayed SGD"
    replays: int = field(default=2, metadata={WORD: Word("replays", COUNT, "How often.", low=1)})

register_procedure(Replayed)
"""
TRAINER = """
from batchlaw.plans.trainers import Export, Trainer, register

register(Trainer("levanter", "Levanter", "a list", lambda plan, layout: Export("[]"), "plan.txt"))
"""
REPORT = """
import contextlib, io, json
from batchlaw.faces.cli import main
from batchlaw.faces.reference import TABLES
from batchlaw.evidence.sweep.design import parse_design
from batchlaw.faces.app.server import make_app

def printed(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(arguments)
    return " ".join(out.getvalue().split()), code

sweep = None
if SWEEP:
    sweep = [dict(cell) for cell in parse_design(SWEEP).cells()]
print(json.dumps({
    "risk": printed("risk", "--help")[0],
    "plan": printed("plan", "--help")[0],
    "sweep": sweep,
    "schema": json.dumps(make_app().openapi()),
    "docs": {name: table() for name, table in TABLES.items()},
    "run": [printed(*command) for command in RUN],
}))
"""


def _registered(code, sweep="", run=()):
    """Register in a separate process, and look at every face."""
    script = f"{code}\nSWEEP = {sweep!r}\nRUN = {list(run)!r}\n{REPORT}"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_rate_schedule_and_its_parameter_reach_every_face():
    seen = _registered(
        RATE,
        "[rates]\nkind = 'sawtooth'\nteeth = [2, 3.5]",
        [["risk", "--rates", "sawtooth", "--teeth", "3", "--batches", "constant"]],
    )
    for command in ("risk", "plan"):
        assert "constant, step, sawtooth, or a CSV file" in seen[command]
        assert "--teeth FLOAT: How often the rate falls. For sawtooth. Default: 4." in seen[command]
    assert [cell["teeth"] for cell in seen["sweep"]] == [2.0, 3.5]
    assert "sawtooth" in seen["schema"]
    assert "teeth" in seen["schema"]
    assert "| `sawtooth` | Falls to zero again and again. | `teeth` |" in seen["docs"]["rates"]
    assert "How often the rate falls." in seen["docs"]["words"]
    (out, code), *_ = seen["run"]
    assert code == 0
    assert "one-pass SGD, 64 steps" in out


def test_an_option_of_an_update_rule_reaches_every_face():
    seen = _registered(
        RULE,
        "[solver]\noptimizer = 'lion'\ninterpolation = 0.8",
        [
            ["risk", "--optimizer", "lion", "--interpolation", "0.8"],
            ["plan", "--optimizer", "lion", "--budget", "640", "--interpolation", "0.8"],
        ],
    )
    for command in ("risk", "plan"):
        assert "lion" in seen[command]
        assert "--interpolation FLOAT: Of Lion." in seen[command]
    assert seen["sweep"][0]["interpolation"] == 0.8
    assert "interpolation" in seen["schema"]
    assert "| `lion` | `lion` | - |" in seen["docs"]["optimizers"]
    assert "| `interpolation` | a number | Of Lion. |" in seen["docs"]["rules"]
    # The solvers are for SGD only, and refuse the new rule.
    assert [code for _, code in seen["run"]] == [2, 2]


def test_a_procedure_and_its_option_reach_every_face():
    seen = _registered(
        PROCEDURE,
        "[solver]\nprocedure = 'replayed'\nreplays = 3",
        [
            ["risk", "--procedure", "replayed", "--replays", "3", "--batches", "constant"],
            ["plan", "--optimizer", "sgd", "--procedure", "replayed", "--budget", "640"],
        ],
    )
    assert "[choices: one-pass, multi-pass, reshuffled, gd, replayed]" in seen["risk"]
    assert "--replays INT: How often." in seen["risk"]
    assert "[choices: one-pass, multi-pass, reshuffled, replayed]" in seen["plan"]
    assert seen["sweep"][0]["replays"] == 3
    assert "replayed" in seen["schema"]
    assert "| `replayed` | replayed SGD |" in seen["docs"]["procedures"]
    assert [code for _, code in seen["run"]] == [0, 0]


def test_a_trainer_reaches_every_face():
    run = [["plan", "--optimizer", "sgd", "--budget", "640", "--format", "levanter"]]
    seen = _registered(TRAINER, run=run)
    assert "pytorch, levanter" in seen["plan"]
    assert "levanter" in seen["schema"]
    assert "| `levanter` | Levanter | a list | nothing | freely |" in seen["docs"]["trainers"]
    assert seen["run"] == [["[]", 0]]
