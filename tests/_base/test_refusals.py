"""What is refused, with which field and which sentence.

The sentences are pinned in tests/refusals.txt; ``python tests/_base/test_refusals.py`` rewrites it.
Other tests of refusals assert only the field.
"""

import contextlib
import io
import json
import shlex
import tempfile
from pathlib import Path

import numpy as np
import pytest
from cyclopts import CycloptsError

import batchlaw as bl
from batchlaw.faces.cli import app, main
from small_laws import small_law

SNAPSHOT = Path(__file__).parents[1] / "refusals.txt"

small = bl.Problem.from_spectrum([0.9, 0.4, 0.1], [1.0, 0.5, 2.0], 1.3)
rates = bl.wsd(10, 0.2)
kappa = bl.influence(small, rates)
fitted = small_law()
planned = bl.Plan(rates, ((10, 8),), 80)
law = {"steps": 64, "peak": 0.05, "batches": 8}
features = np.random.default_rng(0).standard_normal((30, 3))
labels = features @ [1.0, 2.0, 3.0]


def from_json(**changes):
    return bl.Plan.from_json(json.dumps(json.loads(planned.to_json()) | changes))


# Room -> (call, field).
CALLS = {
    "model": [
        ("bl.Problem.paper(sketch=0)", "sketch"),
        ("bl.Problem.paper(dim=10, sketch=20)", "dim"),
        ("bl.Problem.power_law(1.0, 1.5, 8, seed=1)", "a"),
        ("bl.Problem.power_law(2.0, 0.9, 8, seed=1)", "b"),
        ("bl.Problem.power_law(30.0, 1.5, 16, seed=1)", "a"),
        ("bl.Problem.paper(sigma=-1)", "sigma"),
        ("bl.Problem.from_spectrum([1.0, 0.0], [1.0, 1.0], 1.0)", "eigenvalues"),
        ("bl.Problem.from_spectrum([1.0, 0.5], [1.0], 1.0)", "target_energy"),
        ("bl.Problem.from_spectrum([1.0], [1.0], -0.5)", "noise_variance"),
        ("bl.Problem.power_law_nodes(2.0, 1.5, 10**9, kind='nodes')", "kind"),
        ("bl.Problem.power_law_nodes(7.0, 1.5, 10**9, kind='sketch')", "a"),
        ("bl.Problem.power_law_nodes(2.0, 1.5, 10**9, nodes=2)", "nodes"),
        ("small.prior_mean()", "prior"),
        ("small.sample(0, seed=1)", "n"),
    ],
    "schedule": [
        ("bl.wsd(1, 0.1)", "steps"),
        ("bl.wsd(10, 'fast')", "peak"),
        ("bl.wsd(10, 0.0)", "peak"),
        ("bl.wsd(10, 0.1, stable=0.01)", "stable"),
        ("bl.wsd(10, 0.1, decay='sudden')", "decay"),
        ("bl.wsd(10, 0.1, warmup=-1)", "warmup"),
        ("bl.cosine(10, 0.1, final=2.0)", "final"),
        ("bl.polynomial(10, 0.1, power=0)", "power"),
        ("bl.step(10, 0.1, drops=[1.5])", "drops"),
        ("bl.sgd(momentum=1.0)", "momentum"),
        ("bl.sgd(nesterov=True)", "nesterov"),
        ("bl.tail_average(10, 0.0)", "share"),
        ("bl.ema(10, 1.5)", "decay"),
        ("bl.ema(10, 1.0)", "decay"),
        ("bl.sgd(average='ema:1')", "average"),
        ("bl.sgd(average='ema')", "average"),
        ("bl.sgd(average='tail:0')", "average"),
    ],
    "influences": [
        ("bl.influence(small, [0.1, -0.1])", "rates"),
        ("bl.influence(small, [])", "rates"),
        ("bl.influence(small, rates * 20)", "rates"),
        ("bl.influence(small, rates, average='tail:2')", "average"),
        ("bl.influence(small, rates, average='mean')", "average"),
        ("bl.influence(small, rates, rule='sgd')", "rule"),
        ("bl.influence_proxy(rates, 1.0, 1.0)", "a"),
        ("bl.influence_proxy(rates, 2.0, 0.0)", "scale"),
    ],
    "batches": [
        ("bl.allocate(kappa, 9)", "budget"),
        ("bl.allocate(kappa, 80.5)", "budget"),
        ("bl.allocate(kappa, 80, method='best')", "method"),
        ("bl.allocate(kappa, 80, min_batch=9)", "budget"),
        ("bl.allocate(kappa, 800, max_batch=9)", "budget"),
        ("bl.allocate(kappa, 81, multiple_of=2)", "budget"),
        ("bl.allocate(kappa, 80, min_batch=8, max_batch=4)", "min_batch"),
        ("bl.allocate(kappa, 80, stages=0)", "stages"),
        ("bl.allocate([1.0, -1.0], 8)", "influence"),
        ("bl.Limits(min_batch=0)", "min_batch"),
        ("bl.Limits(batch_factor=1)", "batch_factor"),
        ("bl.effective_batch(kappa, [8] * 9)", "batches"),
        ("bl.effective_batch(kappa, [8] * 9 + [0])", "batches"),
        ("bl.effective_fluctuation(kappa, [8] * 10, 7)", "batches"),
    ],
    "risk": [
        ("bl.one_pass_risk(small, rates, [1.5] * 9)", "batches"),
        ("bl.one_pass_risk(small, rates * 20, 8)", "rates"),
        ("bl.one_pass_risk(bl.Problem.paper(), bl.constant(999, 2.0), 1)", "rates"),
        ("bl.one_pass_risk(small, rates, {})", "batches"),
        ("bl.multi_pass_risk(small, rates, 8)", "samples"),
        ("bl.multi_pass_risk(small, rates, 8, samples=4)", "batches"),
        ("bl.multi_pass_risk(small, rates, 8, samples=64, method='exact')", "method"),
        ("bl.gradient_descent_risk(small, rates)", "samples"),
        ("bl.multi_pass_risk(small, rates, 8, dataset=(features, labels[:4]))", "dataset"),
        ("bl.simulate_one_pass(small, rates, 8, repetitions=2, seed=1)", "repetitions"),
        ("bl.multi_pass_risk(small, rates, 8, samples=64, rule=bl.sgd(0.5))", "rule"),
        ("bl.gradient_descent_risk(small, rates, samples=64, rule=bl.sgd(0.5))", "rule"),
        ("bl.Case(small, rates, 8, bl.design.MultiPass(), bl.sgd(0.5)).risk()", "momentum"),
        (
            "bl.design.simulate_procedure(small, rates, 8, abs, repetitions=2, seed=1)",
            "repetitions",
        ),
        ("bl.design.simulate_procedure(small, rates, 8, 'sgd', repetitions=3, seed=1)", "step"),
        ("bl.simulate_one_pass(small, rates, 8, repetitions=9, seed=-1)", "seed"),
        ("bl.one_pass_risk(small, rates, 8).standard_error('variance')", "term"),
        ("bl.one_pass_risk(small, rates, {'g': 8, 'c': 4}).ratio('fluctuation', 'g', 'c')", "term"),
        ("bl.one_pass_risk(small, rates, 8).ratio('cross', 0, 0)", "term"),
        ("bl.one_pass_risk(small, rates, [rates * 99] * 2).ratio('bias', 0, 2)", "schedule"),
        ("bl.one_pass_risk(small, rates, 8).ratio('bias', 'g', 0)", "schedule"),
        ("bl.multi_pass_risk(small, rates, 64, samples=64).ratio('fluctuation', 0, 0)", "term"),
        (
            "bl.multi_pass_risk(small, rates, {'g': 8, 'all': 64}, samples=64)"
            ".ratio('fluctuation', 'g', 'all')",
            "term",
        ),
        ("bl.Problem.power_law_nodes(2.0, 1.5, 64, kind='sketch').sample(8, seed=1)", "problem"),
    ],
    "theory": [
        ("bl.one_pass_law(0.9, 1.5, 64, **law)", "a"),
        ("bl.one_pass_law(2.0, 1.5, 64, **law | {'batches': 0})", "batches"),
        ("bl.one_pass_law(2.0, 1.5, 64, **law | {'peak': 0.0})", "peak"),
        ("bl.multi_pass_law(2.0, 1.5, 64, **law, samples=1)", "samples"),
        ("bl.bounds.approximation_upper([1.0, 0.5], [[1.0]], [1.0, 1.0])", "sketch"),
        ("bl.bounds.approximation_upper([0.5, 1.0], [[1.0, 1.0]], [1.0, 1.0])", "eigenvalues"),
        ("bl.bounds.approximation_upper([1.0, 0.5], [[1.0, 1.0]], [1.0])", "target"),
    ],
    "from_data": [
        ("bl.estimate.estimate_spectrum(features[:1])", "features"),
        ("bl.estimate.estimate_spectrum(features * np.nan)", "features"),
        ("bl.estimate.estimate_spectrum(features * 0)", "features"),
        ("bl.estimate.fit_tail([1.0, 0.5])", "features"),
        ("bl.estimate.population_spectrum([1.0, 0.5], 1, 2)", "eigenvalues"),
        ("bl.Run(0.1, 8, [1], [2.0])", "rates"),
        ("bl.Run(rates, 8, [11], [2.0])", "steps"),
        ("bl.Run(rates, 8, [1, 2], ['high', 'low'])", "losses"),
        ("bl.Run(rates, 8, [1, 2], [2.0, np.nan])", "losses"),
        ("bl.Run(rates, 8, [1], [2.0], columns={'noise': [[1.0]]})", "noise"),
        ("bl.Run(rates, 8, [1], [2.0], rule='adamw')", "rule"),
        ("bl.read_run('missing.csv', batch=8)", "path"),
        ("bl.read_run('empty.csv', batch=8)", "path"),
        ("bl.read_run('text.txt', batch=8)", "path"),
        ("bl.read_run('letter.csv', batch=8)", "path"),
        ("bl.read_run('plan.json', batch=8)", "path"),
        ("bl.read_run('log.csv')", "batch"),
        ("bl.read_run('log.csv', batch=8)", "path"),
        ("bl.read_run('log.csv', batch=8, rates='lr')", "rates"),
        ("bl.read_run('log.csv', batch=8, rates=bl.cosine(19, 0.1))", "rates"),
        ("bl.read_run('log.csv', batch=8, loss='val_loss')", "loss"),
        (
            "bl.read_run('log.csv', batch=9, rates=[0.1] * 20, unit='tokens', sequence_length=2)",
            "batch",
        ),
        (
            "bl.read_run('log.csv', batch=9, rates=bl.cosine(20, 0.1), unit='tokens')",
            "sequence_length",
        ),
        ("bl.read_run('log.csv', batch=8, steps=19)", "steps"),
        ("bl.read_run('nan.csv', batch=8)", "path"),
        ("bl.read_run('cells.csv', batch=8)", "path"),
        ("bl.read_run('twice.csv', batch=8)", "path"),
        ("bl.read_run('lines.jsonl', batch=8)", "path"),
        ("bl.read_run('.', batch=8)", "path"),
    ],
    "datasets": [
        ("bl.datasets.batch_schedules(folder='none')", "folder"),
        ("bl.datasets.batch_schedules('small', folder='.')", "block"),
        ("bl.datasets.batch_schedules(folder='.')", "folder"),
    ],
    "design": [
        ("bl.optimal_batches(small, rates, 5)", "budget"),
        ("bl.design.best_run_length(small, 5, 0.1)", "samples"),
        ("bl.design.CostModel(width=0)", "width"),
        ("bl.design.best_batch(bl.design.exact(small, 0.1), 5)", "samples"),
        ("bl.design.by_law(2.0, 1.5, 64, 0.05, bias=-1.0)", "bias"),
        ("bl.design.next_runs(rates, 80)", "rule"),
        ("bl.design.next_runs(rates, 80, law='law.json')", "law"),
        ("bl.design.next_runs(rates, 80, rule=bl.sgd())", "rates"),
        ("bl.design.next_runs(bl.cosine(99, 0.1), 99, rule=bl.sgd())", "budget"),
        ("bl.design.next_runs(rates * 0, 80, rule=bl.sgd())", "rates"),
        ("bl.design.next_runs(rates, 80, rule=bl.sgd(), most_runs=7)", "most_runs"),
        ("bl.design.next_runs(rates, 80, rule=bl.sgd(), schedules={'mine': 9})", "schedules"),
        ("bl.design.next_runs(rates, 80, rule=bl.sgd(), schedules=[8])", "schedules"),
    ],
    "plans": [
        ("bl.plan(rates, 80, spectrum=small, rule=bl.adam())", "problem"),
        ("bl.plan(rates, 80, spectrum=small, influence=kappa)", "spectrum"),
        ("bl.plan(rates, 5, rule=bl.sgd(), spectrum=small)", "budget"),
        ("bl.plan(rates, 80, rule=bl.sgd(), spectrum=[1.0, 0.5])", "spectrum"),
        ("bl.plan(rates, 80)", "rule"),
        ("bl.plan(rates, 80, influence=kappa[:5])", "influence"),
        ("bl.plan(rates, 80, law='law.json')", "law"),
        ("bl.plan(rates, 80, law=fitted, influence=kappa)", "influence"),
        ("bl.plan(rates, 80, law=fitted, spectrum=small)", "spectrum"),
        ("bl.plan(rates, 80, law=fitted, noise='model')", "noise"),
        ("bl.plan(rates, 80, law=fitted, rule=bl.sgd(0.9))", "rule"),
        ("bl.plan(rates, 80, law=fitted, loss=3.0, lowest_loss=2.0)", "loss"),
        ("bl.plan(rates, 80, law=fitted, choose_peak=True)", "choose_peak"),
        ("bl.plan(rates, 1000, law=fitted, choose_steps=True)", "choose_steps"),
        ("bl.plan(rates, 80, rule=bl.sgd(), choose_steps=True)", "choose_steps"),
        ("bl.plan(rates, 80, influence=kappa, rule=bl.sgd(0.5))", "rule"),
        ("bl.plan(rates, 80, rule=bl.sgd(), noise='model')", "noise"),
        ("bl.plan(rates, 80, rule=bl.sgd(average=[0.0] * 10))", "average"),
        ("bl.plan(rates, 80, spectrum=small, rule=bl.sgd(average=[0.0] * 10))", "average"),
        ("bl.Plan(rates, ((9, 8),), 80)", "stages"),
        ("bl.Plan(rates, ((10, 8),), 80, unit='words')", "unit"),
        ("bl.Plan.from_json('not JSON')", "plan"),
        ("bl.Plan.from_json('plan.json')", "plan"),
        ("from_json(colour='red')", "colour"),
        ("from_json(steps=9)", "steps"),
        ("from_json(schema='batchlaw-plan/9')", "schema"),
        ("from_json(stages=[[10, 8.5]])", "stages"),
        ("from_json(rates=['x'] * 10)", "rates"),
        ("bl.trainers.export(planned, 'keras')", "trainer"),
        ("bl.trainers.export(planned, 'olmo')", "sequence_length"),
        ("bl.trainers.export(planned, 'accumulation')", "data_parallel"),
    ],
}
# Room -> (command, field); they run in a folder with the files of FILES.
COMMANDS = {
    "command plan": [
        ("plan --optimizer sgd --budget 5", "budget"),
        ("plan --optimizer sgd --budget 640 --rates polynomial --power 0", "power"),
        ("plan --optimizer sgd --budget 640 --rates missing.csv", "path"),
        ("plan --optimizer sgd --budget 640 --problem empty.csv", "path"),
        ("plan --optimizer sgd --budget 640 --min-batch 100", "budget"),
        ("plan --optimizer sgd --budget 640 --min-batch 9 --max-batch 4", "min_batch"),
        ("plan --optimizer sgd --budget 640 --format olmo", "sequence_length"),
        ("plan --optimizer sgd --budget 63", "budget"),
        ("plan --optimizer sgd --budget 6400 --min-batch 9 --max-batch 8", "min_batch"),
        (
            "plan --optimizer sgd --budget 6400 --min-batch 5 --max-batch 7 --multiple-of 8",
            "multiple_of",
        ),
        ("plan --optimizer sgd --budget 6400 --stages 0", "stages"),
        ("plan", "rule"),
        ("plan --momentum 0.9 --budget 640", "rule"),
        ("plan --optimizer sgd", "budget"),
        ("plan --optimizer sgd --beta1 0.9 --budget 640", "beta1"),
        ("plan --optimizer lion --budget 640", "--optimizer"),
        ("plan --optimizer sgd --tokens 5000", "sequence_length"),
        ("plan --optimizer sgd --tokens 6400 --sequence-length 10 --budget 700", "samples"),
        ("plan --optimizer sgd --budget 640 --format yaml", "format"),
        ("plan --optimizer sgd --budget 640 --exponent 0.9", "exponent"),
        ("plan --optimizer sgd --budget 640 --exponent 3:2", "exponent"),
        ("plan --optimizer sgd --budget 640 --exponent 3:1.2", "exponent"),
        ("plan --optimizer sgd --budget 640 --average ema:1", "average"),
        ("plan --optimizer sgd --budget 640 --noise model", "noise"),
        ("plan --optimizer sgd --budget 640 --multiple-of 6 --data-parallel 4", "multiple_of"),
        ("plan --optimizer sgd --budget 640 --procedure reshuffled", "dataset_size"),
        ("plan --optimizer sgd --budget 640 --seed 3", "seed"),
        ("plan --optimizer sgd --budget 640 --problem paper --scale 3", "scale"),
        ("plan --optimizer sgd --budget 640 --scale 1e6", "scale"),
        ("plan --optimizer sgd --budget 640 --data-parallel 0", "data_parallel"),
        ("plan --optimizer sgd --budget 6400 --dataset-size 100", "budget"),
    ],
    "command design": [
        ("design", "steps"),
        ("design --steps 100 --budget 800", "gamma"),
        ("design --steps 100 --gamma 0.1", "budget"),
        ("design --steps 100 --gamma 0.1 --budget 800", "rule"),
        ("design --steps 100 --gamma 0.1 --budget 800 --beta1 0.9", "rule"),
        ("design --steps 100 --gamma 0.1 --budget 800 --law text.txt", "law"),
        ("design --steps 100 --gamma 0.1 --budget 800 --law missing.json", "law"),
        ("design --steps 100 --gamma 0.1 --budget 800 --optimizer sgd --loss 0", "loss"),
        (
            "design --steps 100 --gamma 0.1 --budget 800 --optimizer sgd --max-compute 0.01",
            "max_compute",
        ),
    ],
    "command check": [
        ("check missing.json", "plan"),
        ("check text.txt", "plan"),
        ("check plan.json --rates empty.csv", "rates"),
        ("check --train-steps 9", "plan"),
    ],
    "command estimate": [
        ("estimate missing.csv", "path"),
        ("estimate empty.csv", "path"),
        ("estimate text.txt", "path"),
    ],
    "command risk": [
        ("risk --steps 2", "steps"),
        ("risk --momentum 1.5", "momentum"),
        ("risk --beta1 0.5", "beta1"),
        ("risk --optimizer adam --momentum 0.5", "momentum"),
        ("risk --average tail:2", "average"),
        ("risk --samples 9", "samples"),
        ("risk --batches many", "batches"),
        ("risk --gamma 90", "rates"),
        ("risk --rates gaps.csv", "path"),
        ("risk --rates hole.csv", "path"),
        ("risk --rates letter.csv", "path"),
        ("risk --rates column.csv", "path"),
        ("risk --steps 3.9", "--steps"),
        ("risk --problem none.csv", "path"),
        ("risk --problem paer", "problem"),
        ("risk --rates wds", "rates"),
        ("risk --batches orcale", "batches"),
        ("risk --batches none.csv", "path"),
        ("risk --steps 9", "warmup"),
        ("risk --gamma 5", "rates"),
        ("risk --gamma nan", "peak"),
        ("risk --budget 10", "budget"),
        ("risk --average last:3", "average"),
        ("risk --average ema:1", "average"),
        ("risk --average tail:0.5 --procedure multi-pass --method simple", "method"),
        ("risk --quantiles datasets", "solver"),
        ("risk --solver simulated --quantiles batches", "over"),
        ("risk --solver simulated --problem sketch", "problem"),
        ("risk --procedure gd --momentum 0.5 --solver exact", "solver"),
        ("risk --procedure multi-pass --average tail:0.5 --trajectory out", "trajectory"),
        ("risk --m inf", "sketch"),
        ("risk --nesterov", "nesterov"),
        ("risk --samples 3", "samples"),
        ("risk --procedure gd --replacement", "replacement"),
        ("risk --problem truncation --seed 3", "seed"),
        ("risk --problem sketch --b 25 --m 1e12", "b"),
        ("risk --problem truncation --sigma 1e200", "sigma"),
        ("risk --rates cosine --decay linear", "decay"),
        ("risk --batches oracle,", "batches"),
        ("risk --procedure two-pass", "--procedure"),
        ("risk --warmup soon", "--warmup"),
        ("risk --procedure multi-pass --samples 8 --steps 100 --budget 6400", "budget"),
    ],
    "command law": [
        ("law --a 1", "a"),
        ("law --steps 2", "steps"),
        ("law --batches oracle,constant", "batches"),
        ("law --rates cosine", ""),
        ("law --decay linear", ""),
        ("law --problem x.csv", "problem"),
        ("law --replacement", "replacement"),
        ("law --procedure one-pass --samples 9", "samples"),
        ("law --steps 9", "warmup"),
        ("law --m 64.5", "sketch"),
    ],
    "command reproduce": [
        ("reproduce --reps 0", "reps"),
        ("reproduce --n 63", "n"),
        ("reproduce --output-dir text.txt", "output_dir"),
        ("reproduce --one-pass-n-values 63,128", "one_pass_n_values"),
        ("reproduce --multipass-grad-budget-values 511", "multipass_grad_budget_values"),
        ("reproduce --grad-budget 262144", "grad_budget"),
        ("reproduce --one-pass-n-values 96,l28", "--one-pass-n-values"),
        ("reproduce --one-pass-n-values 96,,128", "--one-pass-n-values"),
        ("reproduce --t 2", "t"),
        ("reproduce --t 9", "t"),
        ("reproduce --gamma 3.1", "rates"),
        ("reproduce --gamma nan", "gamma"),
        ("reproduce --gamma -0.05", "gamma"),
        ("reproduce --sigma -1", "sigma"),
        ("reproduce --sigma inf", "sigma"),
        ("reproduce --a 0.5", "a"),
        ("reproduce --m 0", "sketch"),
        ("reproduce --d 10", "d"),
        ("reproduce --reps 2", "reps"),
        ("reproduce --seed -1", "seed"),
        ("reproduce --reps many", "--reps"),
        ("reproduce --reps 3.9", "--reps"),
        ("reproduce --a 100", "a"),
        ("reproduce --seed 99999999999999999999", "seed"),
        ("reproduce --unknown 3", ""),
        ("reproduce --workers 0", "workers"),
    ],
    "command verify": [
        ("verify --family all", "family"),
        ("verify --claim one-pass", "claim"),
        ("verify --workers 0", "workers"),
    ],
    "command static-batch": [
        ("static-batch --samples 5", "samples"),
        ("static-batch --samples 3", "samples"),
        ("static-batch --gamma 3", "rates"),
        ("static-batch --share 0", "share"),
        ("static-batch --plot x.svg", "plot"),
        ("static-batch --problem none.csv", "problem"),
    ],
    "command worth": [
        ("worth --exponents 2", "exponents"),
        ("worth --exponents 2:x", "exponents"),
        ("worth --exponents 0.5:2", "exponents"),
        ("worth --exponents 2:0.5", "exponents"),
        ("worth --gamma 100", "rates"),
        ("worth --sigma 1,-1", "sigma"),
        ("worth --horizon 10:1", "horizon"),
        ("worth --horizon 0.5:10", "horizon"),
        ("worth --batch 5:6", "batch"),
        ("worth --gamma 0", "gamma"),
        ("worth --points 1", "points"),
        ("worth --m 0.5 --points 2", "sketch"),
        ("worth --rates sine", "--rates"),
    ],
    "command sweep": [
        ("sweep missing.toml --store s.sqlite", "grid"),
        ("sweep text.txt --store s.sqlite", "grid"),
        ("sweep grid.toml --store text.txt", "store"),
        ("sweep unknown.toml --store s.sqlite", "rates.step"),
        ("sweep grid.toml --store s.sqlite --workers 0", "workers"),
    ],
}
FILES = {
    "gaps.csv": "step,rate\n1,0.1\n3,0.2\n",
    "hole.csv": "rate\n0.1\n\n0.2\n",
    "letter.csv": "rate\n0.1\nx\n",
    "column.csv": "gamma\n0.1\n",
    "empty.csv": "",
    "text.txt": "words, not numbers",
    "log.csv": "step,learning_rate,loss\n10,0.1,3\n15,0.1,2.5\n20,0.1,2.4\n",
    "nan.csv": "step,rate,loss\n1,0.1,3\n2,0.1,2.5\n3,0.1,nan\n",
    "cells.csv": "step,rate,loss\n1,0.1,3\n2,0.1,2.5,7\n3,0.1,2\n",
    "twice.csv": "step,loss,loss\n1,2,3\n",
    "lines.jsonl": '{"step": 1, "loss": 3}\n[1, 2]\n',
    "plan.json": planned.to_json(),
    "grid.toml": "[rates]\nsteps = [16, 32]\n",
    "unknown.toml": "[rates]\nstep = 8\n",
}


def refusal(text):
    """The error raised by a call of the public API or by a command."""
    try:
        if text.startswith("batchlaw "):
            app(shlex.split(text)[1:])
        else:
            eval(text, globals())
    except (bl.InputError, CycloptsError) as error:
        return error
    raise AssertionError(f"not refused: {text}")


def sentence(text):
    """What the caller reads; a command's sentence uses the names of its options."""
    if not text.startswith("batchlaw "):
        return str(refusal(text))
    with (
        contextlib.redirect_stderr(io.StringIO()) as errors,
        contextlib.redirect_stdout(io.StringIO()) as output,
    ):
        assert main(shlex.split(text)[1:]) == 2
    assert output.getvalue() == ""
    (line,) = errors.getvalue().splitlines()
    return line.removeprefix("batchlaw: ")


def table():
    """(room, call or command, field) for every refusal."""
    yield from ((room, call, field) for room, rows in CALLS.items() for call, field in rows)
    for command, rows in COMMANDS.items():
        yield from ((command, f"batchlaw {words}", field) for words, field in rows)


def snapshot():
    """Call or command -> its pinned sentence."""
    lines = SNAPSHOT.read_text().splitlines()
    pairs = [line for line in lines if line and not line.startswith("#")]
    return dict(zip(pairs[::2], (line.strip() for line in pairs[1::2]), strict=True))


def write_files(folder):
    for name, text in FILES.items():
        (folder / name).write_text(text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files of FILES, as the current directory."""
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("text", "field"), [row[1:] for row in table()])
def test_a_refusal_names_its_field_in_the_words_of_the_snapshot(text, field, folder):
    from refused import field_of  # this file runs alone too, without the folder of its helpers

    assert field_of(refusal(text)) == field
    assert sentence(text) == snapshot()[text]
    # A store's lock file stays: another process may be waiting for it.
    left = {path.name for path in folder.iterdir() if path.suffix != ".lock"}
    assert left == FILES.keys()


def test_the_snapshot_has_the_refusals_of_the_table_and_no_others():
    assert list(snapshot()) == [text for _, text, _ in table()]


def test_the_table_reaches_every_kind_of_input():
    assert sum(1 for _ in table()) >= 60


def write_snapshot():
    lines = ["# What is refused, and in which words: python tests/_base/test_refusals.py"]
    previous = None
    for room, text, _ in table():
        lines += ["", f"# {room}"] if room != previous else []
        previous = room
        lines += [text, f"    {sentence(text)}"]
    SNAPSHOT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        write_files(Path(name))
        write_snapshot()
