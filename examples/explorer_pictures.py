"""Screenshots of the explorer in all its states, one of them for the documentation.

    .venv/bin/python examples/explorer_pictures.py results/explorer

writes one PNG per state; it needs Chromium and the extras explore and test. The picture in the
documentation is docs/figures/explorer.png, made by

    .venv/bin/python examples/explorer_pictures.py docs/figures --only explorer
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

Act = Callable[[Page], None]
DRAWN = "draw=" + "+".join(str(k) for k in (2, 3, 5, 8, 12, 14, 12, 9, 6, 4, 3, 2, 1))
DESKTOP, PHONE = (1360, 1000), (390, 844)


def settled(page: Page) -> None:
    """Wait until the page says that it is complete, and then for it to be painted."""
    expect(page.locator("#results")).to_have_attribute("aria-busy", "false", timeout=60_000)
    page.wait_for_timeout(300)


def check(page: Page) -> None:
    page.click("#start-check")
    expect(page.locator("#check-said")).to_contain_text("200 of 200", timeout=120_000)


def check_begun(page: Page) -> None:
    page.fill("#repetitions", "2000")
    page.click("#start-check")
    expect(page.locator("#check-said")).to_contain_text("s.e.", timeout=120_000)


def bad(page: Page) -> None:
    page.fill("#set-budget", "10")
    expect(page.locator("#error")).to_be_visible()


def refused(page: Page) -> None:
    expect(page.locator("#error")).to_be_visible()


def focus(page: Page) -> None:
    page.focus("#batches-chart")
    for _ in range(3):
        page.keyboard.press("ArrowUp")


def opened(page: Page) -> None:
    for group in page.locator("#controls details").all():
        group.evaluate("node => { node.open = true; }")


def words(page: Page) -> None:
    page.click("#words summary")


def searched(page: Page) -> None:
    page.click("#search")
    expect(page.locator("#certificate")).to_be_visible(timeout=120_000)


def nothing(page: Page) -> None:
    pass


STATES: dict[str, tuple[str, tuple[int, int], str, Act]] = {
    "explorer": (f"#{DRAWN}", DESKTOP, "light", check),
    "start": ("", DESKTOP, "light", nothing),
    "dark": (f"#{DRAWN}", DESKTOP, "dark", check),
    "multi_pass": ("#procedure=multi-pass&steps=512&budget=4096", DESKTOP, "light", check),
    "reshuffled": (f"#procedure=reshuffled&budget=2048&{DRAWN}", DESKTOP, "light", nothing),
    "simple": (
        "#procedure=multi-pass&method=simple&samples=4000&rates=step",
        DESKTOP,
        "dark",
        nothing,
    ),
    "momentum": (
        "#momentum=0.9&peak=0.01&pytorch=true&average=tail:0.5&rates=polynomial",
        DESKTOP,
        "light",
        nothing,
    ),
    "adamw": (f"#optimizer=adamw&peak=0.02&{DRAWN}", DESKTOP, "light", searched),
    "adam_long": ("#optimizer=adam&steps=4000&budget=32000&peak=0.01", DESKTOP, "dark", nothing),
    "adam_reused": ("#optimizer=adam&procedure=multi-pass", DESKTOP, "light", refused),
    "long": ("#steps=100000&budget=800000&stages=8&along-part=noise", DESKTOP, "light", nothing),
    "limits": ("#max_batch=10&min_batch=4&multiple_of=2&stages=2", DESKTOP, "dark", nothing),
    "spectrum": (
        '#problem=spectrum&spectrum={"eigenvalue":[1,0.5,0.25],"energy":[1,2,3]}',
        DESKTOP,
        "light",
        nothing,
    ),
    "misled": ("#momentum=0.9&peak=1&pytorch=true&nesterov=true", DESKTOP, "dark", nothing),
    "check": ("#steps=500&budget=8000", DESKTOP, "light", check_begun),
    "refused": ("", DESKTOP, "dark", bad),
    "words": ("", DESKTOP, "light", words),
    "keyboard": ("", DESKTOP, "light", focus),
    "phone": ("", PHONE, "light", opened),
    "phone_dark": (f"#procedure=multi-pass&steps=512&budget=4096&{DRAWN}", PHONE, "dark", nothing),
    "phone_reshuffled": (f"#procedure=reshuffled&{DRAWN}", PHONE, "light", opened),
    "phone_adamw": ("#optimizer=adamw&peak=0.02", PHONE, "light", nothing),
    "tablet": (f"#{DRAWN}", (820, 1100), "light", nothing),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Screenshots of the explorer in all its states.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", choices=tuple(STATES), help="a single state")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "batchlaw", "explore", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().split()[0]
        for name in [options.only] if options.only else STATES:
            take(address, name, options.directory / f"{name}.png")
    finally:
        server.terminate()
        server.wait(30)


def take(address: str, name: str, path: Path) -> None:
    fragment, (width, height), scheme, act = STATES[name]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page.goto(address + fragment)
        settled(page)
        act(page)
        settled(page)
        page.screenshot(path=path, full_page=True)
        browser.close()
    print(path)


if __name__ == "__main__":
    main()
