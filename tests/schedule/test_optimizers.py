"""Optimizers by name."""

import pytest

import batchlaw as bl
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.optimizers import optimizer_of, options_of, rule_by_words
from batchlaw.schedule.update_rule import SGD
from refused import refused


@pytest.mark.parametrize(
    ("words", "kind", "options"),
    [
        ({}, SGD, {}),
        ({"momentum": 0.5}, SGD, {"momentum": 0.5}),
        ({"optimizer": "sgd"}, SGD, {}),
        ({"optimizer": "momentum"}, SGD, {"momentum": 0.9, "pytorch": True}),
        ({"optimizer": "momentum", "momentum": 0.5}, SGD, {"momentum": 0.5, "pytorch": True}),
        ({"optimizer": "adam"}, Adam, {}),
        ({"optimizer": "adam", "beta1": 0.0, "beta2": 0.95}, Adam, {"beta1": 0.0, "beta2": 0.95}),
        ({"optimizer": "adamw"}, Adam, {"weight_decay": 0.01}),
        ({"optimizer": "adamw", "weight_decay": 0.1}, Adam, {"weight_decay": 0.1}),
    ],
)
def test_an_optimizer_is_a_rule_with_its_options(words, kind, options):
    rule = rule_by_words(words)
    assert type(rule) is kind
    assert options_of(rule) == options_of(kind(**options))


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"beta1": 0.5}, "beta1"),
        ({"optimizer": "sgd", "weight_decay": 0.0}, "weight_decay"),
        ({"optimizer": "adam", "nesterov": True}, "nesterov"),
        ({"optimizer": "lion"}, "optimizer"),
    ],
)
def test_an_option_that_the_optimizer_does_not_have_is_refused(words, field):
    with refused(field):
        rule_by_words(words)


def test_a_rule_knows_its_name_as_an_optimizer():
    rules = {
        "sgd": bl.sgd(average="tail:0.5"),
        "momentum": bl.sgd(0.9),
        "adam": bl.adam(beta1=0.0),
        "adamw": bl.adam(weight_decay=0.1),
    }
    assert {name: optimizer_of(rule) for name, rule in rules.items()} == {n: n for n in rules}
