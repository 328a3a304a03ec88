"""Many clients of the explorer at once, for half a minute: errors, and the server's memory.

.venv/bin/python benchmarks/explorer_load.py [SECONDS]

Fifty clients on loopback move sliders: each requests the view, the run and the collapse of a new
setting, scores a drawing, and sometimes downloads a plan; some disconnect in the middle of a
request. Three per cent of the settings are invalid on purpose. A status of 500 or more, a failed
request, or growing memory is an error, and the exit code is 1.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx2

from batchlaw.faces.cli.table import text_table
from explorer_server import Server, explorer

CLIENTS, SECONDS = 50, 30.0
# Growth allowed from the first third to the end, while caches fill.
MAX_GROWTH_MB = 64.0
FORMATS = ("json", "csv", "png", "pytorch")


@dataclass
class Load:
    """What the clients observed."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    left: int = 0
    waits: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """Megabytes from the maximum of the first third to that of the last."""
        third = max(1, len(self.memory) // 3)
        return max(self.memory[-third:]) - max(self.memory[:third])

    @property
    def errors(self) -> list[str]:
        unexpected = set(self.statuses) - {200, 204, 422}
        errors = [*self.failures, *(f"{self.statuses[s]} answers {s}" for s in unexpected)]
        if self.growth > MAX_GROWTH_MB:
            errors.append(f"memory grew by {self.growth:.0f} MB")
        return errors


def requests(rng: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """The requests caused by one movement of a slider."""
    steps = rng.choice((32, 64, 128, 256))
    setting: dict[str, Any] = {
        "steps": steps,
        "budget": steps * rng.randint(4, 40),
        "peak": rng.uniform(0.005, 0.3),
        "stages": rng.randint(1, 6),
        "problem": rng.choice(("paper", "sketch", "truncation")),
    }
    if setting["problem"] != "paper":
        setting |= {"a": rng.uniform(1.2, 3.0), "m": rng.choice((16, 64, 200))}
    if rng.random() < 0.3:
        setting |= {"procedure": "multi-pass", "samples": rng.choice((64, 512))}
    if rng.random() < 0.03:
        setting["steps"] = 10**9
    asked = [(f"/api/{name}", setting) for name in ("view", "collapse", "along")]
    heights = [rng.uniform(1.0, 9.0) for _ in range(33)]
    asked.append(("/api/score", {"setting": setting, "heights": heights}))
    if rng.random() < 0.1:
        asked.append(("/api/plan", {"setting": setting, "format": rng.choice(FORMATS)}))
    return asked


async def client(web: httpx2.AsyncClient, load: Load, seed: int, end: float) -> None:
    rng = random.Random(seed)
    while time.monotonic() < end:
        for path, body in requests(rng):
            start = time.monotonic()
            # A page that has moved on cancels its request almost at once.
            leaves = rng.random() < 0.02
            try:
                reply = await asyncio.wait_for(web.post(path, json=body), 0.005 if leaves else 120)
            except TimeoutError:
                load.left += 1
                if not leaves:
                    load.failures.append(f"{path}: no answer in 120 s")
                continue
            except httpx2.HTTPError as error:
                load.failures.append(f"{path}: {error!r}")
                continue
            load.statuses[reply.status_code] += 1
            load.waits.append(time.monotonic() - start)


async def watch(server: Server, load: Load, end: float) -> None:
    while time.monotonic() < end:
        load.memory.append(server.megabytes())
        await asyncio.sleep(0.1)


async def warm_up(web: httpx2.AsyncClient) -> None:
    """Send every kind of request once: what is loaded on first use is not growth."""
    for problem in ("paper", "sketch", "truncation"):
        for procedure in ("one-pass", "multi-pass"):
            setting = {"problem": problem, "procedure": procedure}
            for name in ("view", "collapse", "along"):
                await web.post(f"/api/{name}", json=setting)
            await web.post("/api/score", json={"setting": setting, "heights": [1.0, 2.0]})
    for format_ in FORMATS:
        await web.post("/api/plan", json={"setting": {}, "format": format_})


def run(seconds: float = SECONDS, clients: int = CLIENTS) -> Load:
    """Run all clients at once; returns what they observed."""

    async def all_of_them() -> Load:
        load = Load()
        # One connection per client.
        limits = httpx2.Limits(max_connections=clients, max_keepalive_connections=clients)
        async with httpx2.AsyncClient(base_url=server.address, timeout=None, limits=limits) as web:
            await warm_up(web)
            end = time.monotonic() + seconds
            users = (client(web, load, seed, end) for seed in range(clients))
            await asyncio.gather(watch(server, load, end), *users)
        return load

    with explorer() as server:
        return asyncio.run(all_of_them())


def main() -> int:
    load = run(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
    waits = sorted(load.waits)
    rows = [
        ("requests answered", f"{sum(load.statuses.values())}"),
        ("by status", ", ".join(f"{s}: {n}" for s, n in sorted(load.statuses.items()))),
        ("given up by the client", f"{load.left}"),
        ("wait, median", f"{waits[len(waits) // 2]:.2f} s"),
        ("wait, 99th percentile", f"{waits[int(0.99 * len(waits))]:.2f} s"),
        ("memory, first third", f"{max(load.memory[: len(load.memory) // 3]):.0f} MB"),
        ("memory, end", f"{load.memory[-1]:.0f} MB"),
        ("errors", "; ".join(load.errors) or "none"),
    ]
    print(text_table((f"{CLIENTS} clients", ""), rows))
    return 1 if load.errors else 0


if __name__ == "__main__":
    sys.exit(main())
