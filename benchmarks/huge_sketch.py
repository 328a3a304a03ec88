"""Time and memory of a problem with d = 10^6 and M = 512, whose sketch alone would take 4 GB."""

import resource
import time

import batchlaw as bl

if __name__ == "__main__":
    start = time.perf_counter()
    problem = bl.Problem.power_law(2.0, 1.5, sketch=512, dim=10**6, seed=0)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"d = 10^6, M = 512: {seconds:.0f} s, {peak:.0f} MB at the most")
    print(f"Approx = {problem.approximation:.6f}, tr Sigma = {problem.trace:.6f}")
