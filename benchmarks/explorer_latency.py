"""From the move of a slider to the new picture, in a real browser.

.venv/bin/python benchmarks/explorer_latency.py

A headless Chromium opens the page; the slider of the peak rate is moved to a new place, and the
time until the next frame after the new view is painted is taken inside the page: the page's own
delay, the request, the computation and the drawing. "All" waits for the run and the collapse as
well, which the page asks for after the view. Moves wait for each other.
"""

from __future__ import annotations

import shutil
from statistics import median

from playwright.sync_api import Page, expect, sync_playwright

from batchlaw.cli.table import text_table
from explorer_server import explorer

CASES = {
    "one pass, the paper's size (T = 64)": ("", 300),
    "multi-pass, the paper's size (L = N = 512)": (
        "#procedure=multi-pass&steps=512&budget=4096",
        200,
    ),
    "one pass, T = 10^5": ("#steps=100000&budget=800000", 100),
}
# Moves the slider and resolves at the frame after the attribute of the body has changed.
MOVE = """
([id, place, name]) => new Promise((resolve) => {
  const slider = document.getElementById(id).parentElement.querySelector("input[type=range]");
  const start = performance.now();
  new MutationObserver((_, observer) => {
    observer.disconnect();
    requestAnimationFrame(() => resolve(performance.now() - start));
  }).observe(document.body, { attributeFilter: [name] });
  slider.value = String(place);
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})
"""


def moves(page: Page, slider: str, attribute: str, count: int) -> list[float]:
    """Milliseconds of so many moves, each to another place; the first three warm up."""
    places = [300 + (37 * k) % 400 for k in range(count + 3)]
    found = []
    for place in places:
        found.append(float(page.evaluate(MOVE, [slider, place, attribute])))
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(20)
    return sorted(found[3:])


def row(name: str, times: list[float]) -> tuple[str, str, str, str]:
    tail = times[min(len(times) - 1, int(0.99 * len(times)))]
    return name, f"{len(times)}", f"{median(times):.0f} ms", f"{tail:.0f} ms"


def main() -> None:
    rows = []
    with explorer() as server, sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, (fragment, count) in CASES.items():
            page = browser.new_page(viewport={"width": 1280, "height": 1000})
            page.goto(server.address + fragment)
            settled = page.locator("body")
            expect(settled).to_have_attribute("data-settled", "1", timeout=60_000)
            rows.append(row(name, moves(page, "set-peak", "data-shown", count)))
            rows.append(row("  all of it", moves(page, "set-peak", "data-settled", count)))
            rows.append(row("  exponent a", moves(page, "set-a", "data-shown", count)))
            page.close()
        browser.close()
    print(text_table(("a slider is moved", "moves", "median", "99th percentile"), rows))


if __name__ == "__main__":
    main()
