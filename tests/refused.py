"""``with refused("budget"):`` the block must raise an ``InputError`` about that argument."""

from contextlib import contextmanager

import pytest

import batchlaw as bl


@contextmanager
def refused(field, kind=bl.InputError):
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.field == field, f"{caught.value.field}: {caught.value}"
