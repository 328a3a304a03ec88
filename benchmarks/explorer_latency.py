"""Time from moving a slider to the new picture, in a real browser.

.venv/bin/python benchmarks/explorer_latency.py

A headless Chromium opens the page at the paper's two sizes and at 10^5 steps. It moves the slider
of the peak rate, then that of the exponent a, which draws a new problem. The page measures the time
to the frame that paints the new view (its own delay, the request, the computation and the drawing),
and to the frame that also shows the run and the collapse, requested at the same time. Each move
waits for the previous one.
"""

from __future__ import annotations

import shutil
from statistics import median

from playwright.sync_api import Page, expect, sync_playwright

from batchlaw.faces.cli.table import text_table
from explorer_server import explorer

CASES = {
    "one pass, T = 64": ("", 500),
    "multi-pass, L = N = 512": ("#procedure=multi-pass&steps=512&budget=4096", 300),
    "one pass, T = 10^5": ("#steps=100000&budget=800000", 100),
}
# Moves a slider; resolves with the milliseconds to the view's frame and to the complete page's.
MOVE = """
([id, share]) => new Promise((resolve) => {
  const results = document.getElementById("results");
  const slider = document.getElementById(id).parentElement.querySelector("input[type=range]");
  const start = performance.now();
  let shown;
  const before = document.body.dataset.shown;
  const observer = new MutationObserver(() => {
    if (document.body.dataset.shown === before) return;
    const all = results.getAttribute("aria-busy") === "false";
    if (all) observer.disconnect();
    requestAnimationFrame(() => {
      const now = performance.now() - start;
      shown ??= now;
      if (all) resolve([shown, now]);
    });
  });
  observer.observe(document.body, { attributeFilter: ["data-shown"] });
  observer.observe(results, { attributeFilter: ["aria-busy"] });
  slider.value = String(Number(slider.min) + share * (slider.max - slider.min));
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})
"""


def moves(page: Page, slider: str, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds of ``count`` moves, each to a new position, after three to warm up."""
    times = []
    for k in range(count + 3):
        times.append(page.evaluate(MOVE, [slider, 0.2 + (0.037 * k) % 0.4]))
        page.wait_for_timeout(20)
    shown, settled = zip(*times[3:], strict=True)
    return sorted(shown), sorted(settled)


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
            results = page.locator("#results")
            expect(results).to_have_attribute("aria-busy", "false", timeout=60_000)
            for slider in ("peak", "a"):
                shown, settled = moves(page, f"set-{slider}", count)
                rows.append(row(f"{name}: {slider}", shown))
                rows.append(row("  with the run and the collapse", settled))
            page.close()
        browser.close()
    print(text_table(("a slider is moved", "moves", "median", "99th percentile"), rows))


if __name__ == "__main__":
    main()
