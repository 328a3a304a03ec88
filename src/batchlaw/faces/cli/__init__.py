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
# Name -> the function behind it, and what it does. Loaded when it is called.
COMMANDS = {
    "reproduce": (
        "reproduce:reproduce",
        "Run the paper's four experiments and compare every figure.",
    ),
    "plan": (
        "plan:plan",
        "Batch sizes for a run: what they buy, and something to paste into a trainer.",
    ),
    "estimate": (
        "estimate:estimate",
        "Spectrum and influence from a sample of features, with a band, for a plan.",
    ),
    "check": ("check:check", "Find a broken horizon, budget or stage before a run."),
    "risk": ("risk:risk", "Risk of batch schedules in its parts, exact or simulated."),
    "law": (
        "law:law",
        "The paper's scaling laws at a setting: terms, horizons, and which conditions hold.",
    ),
    "verify": (
        "verify:verify",
        "Check the paper's claims with exact risks: a verdict for each, and a report.",
    ),
    "static-batch": (
        "static_batch:static_batch",
        "The best constant batch size, and where a larger one stops helping.",
    ),
    "sweep": (
        "sweep:app",
        "Many settings at once: a grid or a random design, resumable, on a cluster too.",
    ),
    "explore": (
        "explore:explore",
        "Open a page on which schedules, influence and risks can be seen and moved.",
    ),
    "study": (
        "study:study",
        "Train real models with each batch schedule, at equal steps and samples.",
    ),
}
for _name, (_where, _help) in COMMANDS.items():
    app.command(f"batchlaw.faces.cli.{_where}", name=_name, help=_help)

# Exit codes: bad input, work that could not be finished, an error in batchlaw itself.
BAD_INPUT, UNFINISHED, BUG, INTERRUPTED = 2, 1, 70, 130
BUG_LINE = (
    "batchlaw: this is an error in batchlaw itself, not in what was asked; please report it with "
    "the lines above and the command"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Bad input is one line on stderr and exit code 2, without a traceback.

    1 means that the work could not be finished, or that figures which must agree do not; 70
    that batchlaw itself has a bug, whose traceback is shown.
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
        # The reader has left; point stdout elsewhere so that closing it is quiet.
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
        """``--option`` where the command has one for the argument, else its own name."""
        from batchlaw.design.vocabulary import FIELDS

        for word in (field, FIELDS.get(field, field)):
            option = f"--{word.replace('_', '-')}"
            if option in self._names:
                return option
        return field


def _say(text: str, code: int) -> int:
    """One line on stderr, and the exit code."""
    print(f"batchlaw: {' '.join(text.split())}", file=sys.stderr)
    return code
