"""Debian's Chromium, which `make test` installs where it may."""

import asyncio
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Where the tests are run for the record a browser that is missing is a failure.
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None and not os.environ.get("CI"),
    reason="Chromium is not here: install Debian's chromium",
)


def run_apart(coroutine):
    """Its result from a loop in a thread: the browser of other tests has one in this thread."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()
