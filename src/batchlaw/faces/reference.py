"""Markdown tables for the documentation, generated from the registries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from batchlaw._base.words import KINDS, Word
from batchlaw.design.glossary import GLOSSARY
from batchlaw.design.vocabulary import SECTIONS
from batchlaw.plans.trainers.registry import table_rows as trainer_rows
from batchlaw.risk.procedure import PROCEDURES, Procedure
from batchlaw.schedule.optimizers import rule_words
from batchlaw.schedule.registry import RATE_PARAMETERS, RATE_SCHEDULES, parameter_help
from batchlaw.schedule.update_rule import OPTIMIZERS, SGD

# How each kind of word is written in a file or an option.
_WRITTEN = dict(
    zip(
        KINDS,
        (
            "a whole number",
            "a number",
            "true or false",
            "text",
            "a name",
            "a share (0.1) or a step (51)",
            'text, "0.5,0.75"',
        ),
        strict=True,
    )
)


def rates_table() -> str:
    """Learning-rate schedules, with the parameters of each."""
    rows = [
        (f"`{s.name}`", s.summary, ", ".join(f"`{p}`" for p in s.parameters))
        for s in RATE_SCHEDULES.values()
    ]
    return _table(("rates", "what it is", "its parameters"), rows)


def rate_parameters_table() -> str:
    """The parameters of learning-rate schedules."""
    return _words((w, parameter_help(w, RATE_SCHEDULES)) for w in RATE_PARAMETERS.values())


def procedures_table() -> str:
    """Procedures: parts of the risk, summary of the batches, and how the risk is computed."""
    rows = [
        (
            f"`{name}`",
            kind.title,
            ", ".join(part.replace("_", " ") for part in kind.parts),
            kind.summary.replace("_", " ") or "none",
            _solvers(kind),
        )
        for name, kind in PROCEDURES.items()
    ]
    return _table(("procedure", "what it is", "parts of its risk", "summary", "its risk"), rows)


def _solvers(kind: type[Procedure]) -> str:
    if not kind.solvable:
        return "simulated"
    everywhere = kind().solves(SGD(momentum=0.5))
    scope = "" if everywhere else " for plain SGD"
    return f"without Monte Carlo{scope}, or simulated"


def rules_table() -> str:
    """The options of update rules."""
    return _words((word, word.help) for word in rule_words().values())


def optimizers_table() -> str:
    """Optimizers: update rules by name, with the options that a name presets."""
    rows = [
        (
            f"`{name}`",
            f"`{optimizer.kind.name}`",
            ", ".join(f"`{option}` {value}" for option, value in optimizer.presets.items()) or "-",
        )
        for name, optimizer in OPTIMIZERS.items()
    ]
    return _table(("optimizer", "update rule", "with"), rows)


def trainers_table() -> str:
    """Trainers that a plan can be written for."""
    header = ("format", "trainer", "what is written", "what must be given", "batches change")
    return "\n".join([_row(header), _row("-" * len(header)), *trainer_rows()])


def words_table() -> str:
    """Every word of a case, by section."""
    rows = [
        (
            section,
            f"`{'kind' if word.name == section else word.name}`",
            _WRITTEN[word.kind],
            word.help,
        )
        for section, words in SECTIONS.items()
        for word in words()
    ]
    return _table(("section", "key", "takes", "what it means"), rows)


def glossary_table() -> str:
    """The words in results."""
    return _table(("word", "what it means"), GLOSSARY.items())


TABLES: dict[str, Callable[[], str]] = {
    "rates": rates_table,
    "rate_parameters": rate_parameters_table,
    "procedures": procedures_table,
    "optimizers": optimizers_table,
    "rules": rules_table,
    "trainers": trainers_table,
    "words": words_table,
    "glossary": glossary_table,
}


def _words(words: Iterable[tuple[Word, str]]) -> str:
    rows = [(f"`{word.name}`", _WRITTEN[word.kind], text) for word, text in words]
    return _table(("name", "takes", "what it means"), rows)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([_row(header), _row("-" * len(header)), *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
