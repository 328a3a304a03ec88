"""``with refused("budget"):`` the block must raise an ``InputError`` about that argument."""

from contextlib import contextmanager

import pytest
from cyclopts import CycloptsError

import batchlaw as bl
from batchlaw.faces.cli import app, main


@contextmanager
def refused(field, kind=bl.InputError):
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.field == field, f"{caught.value.field}: {caught.value}"


def field_of(error):
    """The argument at fault; the option, where the command line itself refuses its text."""
    if isinstance(error, bl.InputError):
        return error.field
    return error.argument.name if error.argument else ""


def refused_command(words, field, capsys):
    """The command prints one line and ends with exit code 2, because of that argument."""
    with pytest.raises((bl.InputError, CycloptsError)) as caught:
        app(words)
    assert field_of(caught.value) == field
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
