"""The command line: one file per command, loaded when it is called."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from batchlaw._base.errors import InputError
from batchlaw._base.version import __version__
from batchlaw.faces.cli.help_text import HelpText

app = App(
    name="batchlaw",
    help="Which updates of an SGD run deserve the samples?",
    version=__version__,
    help_format="markdown",
    help_formatter=HelpText(),
    print_error=False,
    exit_on_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
# Command -> (module:function, help). A module is imported only when its command is called.
COMMANDS = {
    "reproduce": (
        "reproduce:reproduce",
        "Run the paper's four experiments and compare every figure.",
    ),
    "plan": (
        "plan:plan",
        "Batch sizes for a run: what they gain, and settings to paste into a trainer.",
    ),
    "estimate": (
        "estimate:estimate",
        "Estimate the spectrum and influence from features, with a confidence band.",
    ),
    "design": (
        "design:design",
        "Short runs to make next, so that the value of a batch schedule is known best.",
    ),
    "check": ("check:check", "Find mistakes in horizons, budgets and stages before a run starts."),
    "fit": ("fit:fit", "Fit a law of the loss to logs of your own training runs."),
    "predict": (
        "predict:predict",
        "Predict the loss of other rates and batches by a fitted law, with a band.",
    ),
    "risk": ("risk:risk", "The risk of batch schedules, part by part, exact or simulated."),
    "law": (
        "law:law",
        "Evaluate the paper's scaling laws: terms, horizons, and which conditions hold.",
    ),
    "verify": (
        "verify:verify",
        "Check the paper's claims against exact risks: one verdict per claim, and a report.",
    ),
    "static-batch": (
        "static_batch:static_batch",
        "The best constant batch size, and where a larger one stops helping.",
    ),
    "worth": (
        "worth:worth",
        "Map where a batch schedule lowers the excess risk: the best real batches against a "
        "constant one.",
    ),
    "sweep": (
        "sweep:app",
        "Compute many settings: a grid or a random design, resumable, locally or on a cluster.",
    ),
    "explore": (
        "explore:explore",
        "Open a web page that shows schedules, influence and risks interactively.",
    ),
    "study": (
        "study:study",
        "Train real models with each batch schedule, at equal updates and samples.",
    ),
}
for _name, (_where, _help) in COMMANDS.items():
    app.command(f"batchlaw.faces.cli.{_where}", name=_name, help=_help)

# Exit codes.
BAD_INPUT, UNFINISHED, BUG, INTERRUPTED = 2, 1, 70, 130
BUG_LINE = (
    "batchlaw: this is a bug in batchlaw, not in your input; please report it with the command and "
    "the lines above"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Bad input gives 2 and one line on stderr, without a traceback. 1 means that the work could
    not be finished, or that a check failed; 70 is a bug in batchlaw, with its traceback.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = app(words)
        sys.stdout.flush()
    except InputError as error:
        return _say(error.sentence(_options(words).name), BAD_INPUT)
    except CycloptsError as error:
        return _say(str(error), BAD_INPUT)
    except MemoryError:
        return _say("out of memory: ask for fewer steps or repetitions", BAD_INPUT)
    except BrokenPipeError:
        # The reader of our pipe is gone: redirect stdout so that closing it raises nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNFINISHED
    except OSError as error:
        return _say(str(error), UNFINISHED)
    except KeyboardInterrupt:
        return _say("interrupted", INTERRUPTED)
    except Exception:
        traceback.print_exc()
        print(BUG_LINE, file=sys.stderr)
        return BUG
    return code if isinstance(code, int) else 0


class _options:  # noqa: N801 - used as a function
    """The options of the command that was called, for messages that name arguments."""

    def __init__(self, words: list[str]) -> None:
        _, apps, _ = app.parse_commands(words)
        arguments = apps[-1].assemble_argument_collection()
        self._names = {name for argument in arguments for name in argument.names}

    def name(self, field: str) -> str:
        """The command's ``--option`` for an argument, or the argument's name if it has none."""
        from batchlaw.design.vocabulary import FIELDS

        for word in (field, FIELDS.get(field, field)):
            option = f"--{word.replace('_', '-')}"
            if option in self._names:
                return option
        return field


def _say(text: str, code: int) -> int:
    """Print one line on stderr and return the exit code."""
    print(f"batchlaw: {' '.join(text.split())}", file=sys.stderr)
    return code
