import json
import re

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.faces.cli import main
from batchlaw.model.spectrum import PowerLaw
from batchlaw.plans import influence_verdict
from refused import refused, refused_command

RATES = bl.wsd(64, 0.05)
SGD = ["--optimizer", "sgd"]


def test_a_plan_spends_the_budget_in_stages_within_its_bounds(paper):
    made = bl.plan(
        RATES,
        2048,
        rule=bl.sgd(),
        spectrum=paper,
        stages=5,
        min_batch=8,
        max_batch=80,
        multiple_of=8,
    )
    batches = made.batches
    assert len(made.stages) <= 5
    assert ((batches >= 8) & (batches <= 80) & (batches % 8 == 0)).all()
    shortest = min(np.diff([0, *(end for end, _ in made.stages)]))
    assert 2048 - 8 * shortest < made.samples <= 2048
    kappa = bl.influence(paper, RATES)
    objective = (kappa / batches).sum()
    constant = kappa.sum() / (made.samples / 64)
    assert made.prediction["noise_against_constant"] == pytest.approx(objective / constant)
    oracle = np.sqrt(kappa).sum() ** 2 / 2048
    assert made.prediction["noise_against_square_root"] == pytest.approx(objective / oracle)
    assert made.prediction["no_such_schedule_is_below"] * (1 + 1e-9) >= 1.0
    assert made.prediction["no_such_schedule_is_below"] <= made.prediction[
        "noise_against_square_root"
    ] * (1 + 1e-9)


def test_the_whole_risk_the_excess_and_the_variance_are_those_of_the_exact_solver(paper):
    made = bl.plan(RATES, 512, rule=bl.sgd(), spectrum=paper)
    risk = bl.one_pass_risk(paper, RATES, [made.batches, np.full(64, 8)])
    terms = ("total", "excess", "variance")
    assert list(made.prediction)[:3] == [f"{term}_against_constant" for term in terms]
    for term in terms:
        exact = made.prediction[f"{term}_against_constant"]
        assert exact == pytest.approx(risk.ratio(term, 0, 1)[0], rel=1e-12)


def test_the_whole_risk_of_a_reused_dataset_is_the_mean_fields(paper, monkeypatch):
    options = {"spectrum": paper, "procedure": "multi-pass", "dataset_size": 100}
    made = bl.plan(RATES, 640, rule=bl.sgd(), **options)
    schedules = [made.batches, np.full(64, made.batches.mean())]
    risk = bl.multi_pass_risk(paper, RATES, schedules, samples=100)
    for term in ("total", "excess", "fluctuation"):
        found = made.prediction[f"{term}_against_constant"]
        assert found == pytest.approx(risk.ratio(term, 0, 1)[0], rel=1e-12)
    monkeypatch.setattr(influence_verdict, "LONGEST_REUSE", 63)
    short = bl.plan(RATES, 640, rule=bl.sgd(), **options).prediction
    assert short.items() <= made.prediction.items()
    assert "excess_against_constant" not in short
    assert bl.plan(RATES, 640, rule=bl.sgd(), whole_risk=False, **options).prediction == short


def test_the_excess_changes_by_the_noises_share_of_it(paper):
    """Exactly so where the noise is exact: the share of the variance with the constant batch."""
    made = bl.plan(RATES, 512, rule=bl.sgd(), spectrum=paper)
    constant = bl.one_pass_risk(paper, RATES, 8)
    to_first_order = made.excess_change(constant.variance / constant.excess)
    assert 1.0 + to_first_order == pytest.approx(
        made.prediction["excess_against_constant"], abs=2e-5
    )
    assert made.excess_change(0.0) == 0.0
    assert made.excess_change(1.0) == made.prediction["noise_against_constant"] - 1.0
    with refused("noise_share"):
        made.excess_change(1.5)
    reshuffled = bl.plan(
        RATES, 512, rule=bl.sgd(), spectrum=paper, procedure="reshuffled", dataset_size=100
    )
    with refused("prediction"):
        reshuffled.excess_change(0.1)


def test_a_budget_in_tokens_is_whole_samples_of_them(paper):
    made = bl.plan(
        RATES, 10**6 + 17, rule=bl.sgd(), spectrum=paper, unit="tokens", sequence_length=100
    )
    assert made.spent == 10**6
    assert made.samples == 10**4
    assert made.budget == 10**6 + 17


def test_an_unknown_spectrum_is_planned_for_the_worst_exponent():
    made = bl.plan(RATES, 4096, rule=bl.sgd(), bold=True)
    candidates = np.array([bl.influence_proxy(RATES, a, 10.0) for a in np.linspace(1.2, 3, 9)])
    noise = (candidates / made.batches).sum(axis=1)
    oracles = np.sqrt(candidates).sum(axis=1) ** 2 / made.samples
    said = made.prediction
    assert said["worst_ratio_over_exponents"] == pytest.approx((noise / oracles).max())
    constants = candidates.sum(axis=1) / 64
    assert said["worst_noise_against_constant"] == pytest.approx((noise / constants).max())
    assert 1.0 < said["worst_ratio_over_exponents"] < 1.06
    assert "exponent between 1.2 and 3" in made.assumptions[1]
    assert "not given: taken as 0.5 over the peak rate" in made.assumptions[1]
    one = bl.plan(RATES, 4096, rule=bl.sgd(), spectrum=PowerLaw(2.0, 1.3), stages=None)
    expected = bl.allocate(bl.influence_proxy(RATES, 2.0, 1.3), 4096)
    np.testing.assert_array_equal(one.batches, expected)


def test_noise_along_the_run_moves_the_samples(paper):
    noise = np.linspace(4.0, 1.0, 64)
    plain = bl.plan(RATES, 4096, rule=bl.sgd(), spectrum=paper, stages=None).batches
    noisy = bl.plan(RATES, 4096, rule=bl.sgd(), spectrum=paper, stages=None, noise=noise).batches
    expected = bl.allocate(bl.influence(paper, RATES) * noise, 4096)
    np.testing.assert_array_equal(noisy, expected)
    assert noisy[:20].sum() > plain[:20].sum()
    model = bl.plan(RATES, 512, rule=bl.sgd(), spectrum=paper, stages=None, noise="model")
    # Nearer to the exact optimum of 0.6809 than influence alone, which gives 0.6818.
    assert model.prediction["variance_against_constant"] == pytest.approx(0.6810, abs=5e-5)
    with refused("noise"):
        bl.plan(RATES, 512, rule=bl.sgd(), noise="model")


def test_a_reshuffled_plan_quotes_no_gain(paper):
    options = {"spectrum": paper, "dataset_size": 100}
    made = bl.plan(RATES, 2048, rule=bl.sgd(), procedure="reshuffled", **options)
    assert made.prediction == {}
    assert any("no gain is quoted" in text for text in made.assumptions)
    assert made.batches.max() <= 100
    independent = bl.plan(RATES, 2048, rule=bl.sgd(), procedure="multi-pass", **options)
    kappa, b = bl.influence(paper, RATES), independent.batches
    rho = [bl.effective_fluctuation(kappa, x, 100) for x in (b, np.full(64, b.mean()))]
    assert independent.prediction["noise_against_constant"] == pytest.approx(rho[0] / rho[1])
    expected = "independent batches without replacement from a dataset of 100 samples"
    assert expected in independent.assumptions
    # The variance is GD's here, and no batch changes it.
    assert "variance_against_constant" not in independent.prediction


def test_a_plan_says_why_the_risk_of_a_known_problem_is_not_predicted(paper, capsys):
    words = (
        "plan --optimizer sgd --problem paper --budget 512 --procedure multi-pass --dataset-size 64"
    )
    assert main([*words.split(), "--average", "tail:0.5"]) == 0
    out = capsys.readouterr().out
    reason = (
        "the whole risk is not predicted: no solver without Monte Carlo has it over datasets for "
        "multi-pass SGD, averaged by tail:0.5"
    )
    assert f"{reason}.\n" in out
    assert "what it is worth in the loss is not known" not in out
    assert "assumed: the whole risk" not in out
    rule, reuse = bl.sgd(average="tail:0.5"), {"procedure": "multi-pass", "dataset_size": 64}
    assert reason in bl.plan(RATES, 512, spectrum=paper, rule=rule, **reuse).assumptions
    for made, obstacle in (
        (bl.plan(RATES, 512, rule=bl.sgd(), spectrum=paper, noise=RATES), "the given noise"),
        (
            bl.plan(bl.wsd(2049, 0.05), 4096, rule=bl.sgd(), spectrum=paper, **reuse),
            "up to 2048 updates",
        ),
    ):
        assert "total_against_constant" not in made.prediction
        (text,) = (x for x in made.assumptions if x.startswith("the whole risk is not predicted"))
        assert obstacle in text
    known = bl.plan(RATES, 512, rule=bl.sgd(), spectrum=paper)
    assert "total_against_constant" in known.prediction
    assert not any("not predicted" in text for text in known.assumptions)


def test_without_a_loss_the_command_says_so_and_gives_the_gain_by_share(capsys):
    assert main(["plan", *SGD, "--budget", "512", "--exponent", "2", "--scale", "10"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "what that is in your loss is not known" in out
    assert "whole risk" not in out
    law = PowerLaw(2.0, 10.0)
    made = bl.plan(RATES, 512, rule=bl.sgd(), spectrum=law)
    noise = made.prediction["noise_against_constant"] - 1.0
    shown = re.search(r"the excess changes by (\S+) %, (\S+) %, (\S+) %", out).groups()
    for text, share in zip(shown, (1, 10, 50), strict=True):
        assert float(text) == pytest.approx(share * noise, rel=5e-3)


def test_a_plan_round_trips_through_its_json(paper):
    made = bl.plan(RATES, 512, rule=bl.sgd(), spectrum=paper, inputs={"rates": "wsd"}, seed=123)
    again = bl.Plan.from_json(made.to_json())
    assert again == made
    assert again.inputs == {"rates": "wsd"}
    assert again.version == bl.__version__


def test_allocate_takes_stages(paper):
    kappa = bl.influence(paper, RATES)
    batches = bl.allocate(kappa, 512, stages=4)
    assert np.count_nonzero(np.diff(batches)) <= 3
    assert batches.sum() <= 512
    best = (kappa / bl.allocate(kappa, 512)).sum()
    assert best < (kappa / batches).sum() < 1.12 * best
    with refused("stages"):
        bl.allocate(kappa, 512, stages=4, method="paper")


def test_a_rate_file_with_gaps_is_named(tmp_path, capsys):
    path = tmp_path / "rates.csv"
    path.write_text("step,rate\n1,0.1\n2,0.1\n4,0.1\n")
    refused_command(["plan", *SGD, "--rates", str(path), "--budget", "64"], "path", capsys)


def test_the_command_prints_a_table_and_writes_its_files(tmp_path, capsys):
    options = ["--problem", "paper", "--budget", "512", "--stages", "5"]
    assert main(["plan", *SGD, *options, "--output-dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    for text in ("512 of 512 samples", "batch  ", "assumed: "):
        assert text in out
    changes = re.findall(r"^  ([a-z]+)\b.*: ([-+][\d.]+) %$", out, re.MULTILINE)
    assert [word for word, _ in changes] == ["whole", "excess", "exact", "noise"]
    made = bl.Plan.from_json((tmp_path / "plan.json").read_text())
    assert made.samples == 512
    names = [f"{term}_against_constant" for term in ("total", "excess", "variance", "noise")]
    for (_, shown), name in zip(changes, names, strict=True):
        assert float(shown) == pytest.approx(100 * (made.prediction[name] - 1.0), rel=5e-3)
    assert len((tmp_path / "plan.csv").read_text().splitlines()) == 65
    assert (tmp_path / "plan.png").stat().st_size > 5000
    assert main(["check", str(tmp_path / "plan.json")]) == 0


def test_the_command_exports(capsys):
    options = [
        "--steps",
        "1000",
        "--gamma",
        "3e-4",
        "--tokens",
        "1000000000",
        "--sequence-length",
        "2048",
    ]
    parallel = ["--data-parallel", "8", "--micro-batch", "4"]
    assert (
        main(["plan", *SGD, *options, *parallel, "--format", "megatron", "--decay", "linear"]) == 0
    )
    assert "--step-batch-size-schedule" in capsys.readouterr().out
    assert main(["plan", *SGD, *options, *parallel, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 1000


@pytest.mark.parametrize("stages", [2, 3, 5, 8])
def test_a_plan_by_factors_can_be_exported_to_olmo(stages, capsys):
    """OLMo-core changes batches by whole factors, and raises them after whole batches only."""
    made = bl.plan(
        bl.wsd(1000, 0.3, decay="linear"),
        512_000,
        rule=bl.sgd(),
        stages=stages,
        multiple_of=64,
        batch_factor=2,
        bold=True,
    )
    sizes = [size for _, size in made.stages]
    consumed, begin = 0, 0
    for k, (end, size) in enumerate(made.stages):
        if k:
            larger, smaller = max(size, sizes[k - 1]), min(size, sizes[k - 1])
            assert larger % smaller == 0
            assert np.log2(larger / smaller) == int(np.log2(larger / smaller))
            if size > sizes[k - 1]:
                assert consumed % size == 0
        consumed += (end - begin) * size
        begin = end
    assert 0.8 * 512_000 < made.samples <= 512_000
    assert made.prediction["noise_against_constant"] < 1.0
    options = ["--steps", "1000", "--gamma", "0.3", "--decay", "linear", "--tokens", "524288000"]
    more = ["--sequence-length", "1024", "--multiple-of", "64", "--stages", str(stages)]
    assert main(["plan", *SGD, *options, *more, "--bold", "--format", "olmo"]) == 0
    assert "batch" in capsys.readouterr().out


def test_factors_need_stages():
    with refused("batch_factor"):
        bl.plan(RATES, 4096, rule=bl.sgd(), stages=None, batch_factor=2)


def test_check_judges_a_plan_by_the_spectrum_it_was_made_for(tmp_path, capsys):
    """At the end of a linear decay the rate is near zero and the influence is not."""
    run = "--steps 20000 --gamma 3e-4 --warmup 200 --stable 0.8 --decay linear --stages 6"
    budget = "--tokens 1e11 --sequence-length 4096 --multiple-of 64"
    folder = ["--output-dir", str(tmp_path)]
    assert main(["plan", *SGD, *run.split(), *budget.split(), *folder]) == 0
    capsys.readouterr()
    assert main(["check", str(tmp_path / "plan.json"), "--train-tokens", "1e11"]) == 0
    out = capsys.readouterr().out
    assert "too short" not in out
    assert "not checked, because not given: the warmup, the decay" in out


def test_a_plan_with_momentum_follows_its_influence_and_its_exact_variance(paper):
    for form in ({}, {"nesterov": True}, {"pytorch": True}, {"nesterov": True, "pytorch": True}):
        rule = {"momentum": 0.9} | form
        made = bl.plan(RATES / 10, 512, spectrum=paper, stages=None, rule=bl.sgd(**rule))
        kappa = bl.influence(paper, RATES / 10, **rule)
        np.testing.assert_array_equal(made.batches, bl.allocate(kappa, 512))
        risk = bl.one_pass_risk(paper, RATES / 10, [made.batches, np.full(64, 8)], **rule)
        exact = made.prediction["variance_against_constant"]
        assert exact == pytest.approx(risk.ratio("variance", 0, 1)[0], rel=1e-12)
        assert "momentum 0.9" in made.assumptions[0]


def test_batches_with_replacement_may_be_larger_than_the_dataset(paper):
    reuse = {"spectrum": paper, "procedure": "multi-pass", "dataset_size": 16}
    made = bl.plan(RATES, 2048, rule=bl.sgd(), replacement=True, stages=5, **reuse)
    assert made.batches.max() > 16
    kappa = bl.influence(paper, RATES)
    rho = bl.effective_fluctuation(kappa, made.batches, 16, replacement=True)
    assert made.prediction["effective_fluctuation"] == pytest.approx(rho, rel=1e-12)
    assert "with replacement" in made.assumptions[-1]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"replacement": True}, "replacement"),
        ({"spectrum": [1.0, 0.5]}, "spectrum"),
        ({"spectrum": np.ones(3)}, "spectrum"),
        ({"spectrum": "paper"}, "spectrum"),
        ({"influence": np.ones(63)}, "influence"),
        ({"influence": np.zeros(64)}, "influence"),
        ({"influence": -np.ones(64)}, "influence"),
        ({"influence": np.ones((2, 3, 64))}, "influence"),
        ({"influence": np.ones(64), "spectrum": bl.PowerLaw()}, "spectrum"),
        ({"influence": np.ones(64), "rule": bl.sgd(0.9)}, "rule"),
        ({"procedure": "one pass"}, "procedure"),
    ],
)
def test_a_plan_refuses_what_it_cannot_use(options, field):
    default = {} if "influence" in options else {"rule": bl.sgd()}
    with refused(field):
        bl.plan(RATES, 512, **default | options)


def test_a_plan_without_an_optimizer_is_refused_in_one_line_that_names_the_choices(capsys):
    with refused("rule"):
        bl.plan(RATES, 512)
    refused_command(["plan", "--budget", "512"], "rule", capsys)
    refused_command(["plan", "--budget", "512", "--momentum", "0.9"], "rule", capsys)
    main(["plan", "--budget", "512"])
    assert "--optimizer must be named: sgd, momentum, adam or adamw" in capsys.readouterr().err


def test_momentum_is_pytorchs_with_the_options_that_are_given(capsys):
    words = ["--gamma", "0.005", "--budget", "512", "--format", "json"]
    for given, momentum in (([], 0.9), (["--momentum", "0.5"], 0.5)):
        assert main(["plan", "--optimizer", "momentum", *given, *words]) == 0
        made = bl.Plan.from_json(capsys.readouterr().out)
        rule = bl.sgd(momentum, pytorch=True)
        assert made.stages == bl.plan(bl.wsd(64, 0.005), 512, rule=rule).stages


def test_an_influence_becomes_a_plan(paper):
    """The plan of a problem is that of its influence, but for what only the problem knows."""
    kappa = bl.influence(paper, RATES)
    of_problem = bl.plan(RATES, 512, rule=bl.sgd(), spectrum=paper)
    of_influence = bl.plan(RATES, 512, influence=kappa)
    assert of_influence.stages == of_problem.stages
    exact = {f"{term}_against_constant" for term in ("total", "excess", "variance")}
    assert of_problem.prediction.keys() - of_influence.prediction.keys() == exact
    for name, value in of_influence.prediction.items():
        assert value == of_problem.prediction[name]
    assert "given influence" in of_influence.assumptions[0]


def test_several_influences_make_the_worst_case_best():
    candidates = np.array([bl.influence_proxy(RATES, a, 10.0) for a in (1.2, 3.0)])
    plan = bl.plan(RATES, 4096, influence=candidates, stages=None)
    worst = plan.prediction["worst_ratio_over_exponents"]
    for kappa in candidates:
        other = bl.allocate(kappa, 4096)
        ratios = [(k / other).sum() * 4096 / np.sqrt(k).sum() ** 2 for k in candidates]
        assert worst < max(ratios)
    assert "2 influences are possible" in plan.assumptions[1]


def test_a_power_law_can_be_planned_with_momentum():
    """On its eigenvalues: the closed form is for plain SGD."""
    law, rule = bl.PowerLaw(2.0, 10.0), bl.sgd(0.9)
    plan = bl.plan(RATES / 10, 512, spectrum=law, rule=rule, stages=None)
    kappa = bl.influence(law, RATES / 10, rule=rule)
    np.testing.assert_array_equal(plan.batches, bl.allocate(kappa, 512))
    assert "momentum 0.9" in plan.assumptions[0]


def test_every_spectrum_can_be_planned_for(paper):
    from batchlaw.model.model_spectrum import ModelSpectrum

    features, _ = paper.sample(200, 1)
    estimated = bl.estimate.estimate_spectrum(features)
    measured = ModelSpectrum("hessian", paper.eigenvalues[:8], paper.trace, 0.0, 64, 100)
    for spectrum in (estimated, measured, bl.PowerLaw(2.0, 1.3)):
        plan = bl.plan(RATES, 512, rule=bl.sgd(), spectrum=spectrum)
        assert 0.6 < plan.prediction["noise_against_constant"] < 0.8


@pytest.mark.parametrize("options", [{"momentum": 0.8}, {"average": "tail:0.5"}], ids=str)
def test_a_plan_for_reused_data_follows_the_rules_own_influence(small, options):
    """What it promises, against the exact fluctuation on a dataset, where label noise dominates."""
    quiet = bl.Problem.from_spectrum(small.eigenvalues, 0.01 * small.target_energy, 1.3)
    rates, rule = bl.constant(40, 0.03), bl.sgd(**options)
    reuse = {"procedure": "multi-pass", "dataset_size": 200, "stages": None}
    made = bl.plan(rates, 640, spectrum=quiet, rule=rule, **reuse)
    own = bl.influence(quiet, rates, rule=rule)
    np.testing.assert_array_equal(made.batches, bl.allocate(own, 640, max_batch=200))
    schedules = [made.batches, np.full(40, 16), bl.allocate(bl.influence(quiet, rates), 640)]
    risk = bl.multi_pass_risk(quiet, rates, schedules, dataset=quiet.sample(200, 1), rule=rule)
    promised = made.prediction["noise_against_constant"]
    assert risk.ratio("fluctuation", 0, 1)[0] == pytest.approx(promised, rel=0.06)
    assert risk.fluctuation[0] < risk.fluctuation[2]


def test_a_rule_is_no_part_of_a_given_influence(small):
    """Plain SGD's influence can lose to a constant batch for an averaged iterate."""
    rates = bl.constant(40, 0.05)
    plain = bl.influence(small, rates)
    with refused("rule"):
        bl.plan(rates, 320, influence=plain, rule=bl.sgd(average="tail:0.5"))
