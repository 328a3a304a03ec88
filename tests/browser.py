"""Debian's Chromium, which `make test` installs where it may."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
# Where the tests are run for the record a browser that is missing is a failure.
needs_chromium = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("CI"),
        reason="Chromium is not here: install Debian's chromium",
    ),
]


def apart(work, *arguments):
    """Done in a thread of its own: the browser of other tests has an event loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work, *arguments).result()
