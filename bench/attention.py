"""The attention kernels beside FlashAttention-2, timed in turn in one process: ``python3 bench/attention.py``.

Needs a GPU, PyCUDA and PyTorch. Prints a Markdown table of medians and of ratios within the run.
"""

from __future__ import annotations

import argparse
from statistics import median

from ncu_swizzle import catalog, experiment
from ncu_swizzle.expressions import evaluate
from ncu_swizzle.profiling import Request

KERNELS = ("kernel1", "kernel2", "reference-attention")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=50, help="timed samples of each kernel")
    repeats = parser.parse_args().repeats
    timing = experiment.time_kernels(
        catalog.load(), KERNELS, Request(), reference=True, more=["--repeats", str(repeats)]
    )
    machine, problem = timing.facts["machine"], timing.facts["problem"]
    times = {name: median(samples) for name, samples in timing.facts["times_ms"].items()}
    operations = evaluate(timing.family.flops, problem)
    print(f"{machine['gpu']}, driver {machine['driver']}, CUDA {machine['cuda']}; {problem}; median of {repeats}\n")
    print("| kernel | time | TFLOP/s | times as fast as kernel1 | of FlashAttention-2 |")
    print("|---|---|---|---|---|")
    for name, time in times.items():
        speedup, share = times["kernel1"] / time, times["reference-attention"] / time
        print(f"| {name} | {time:.2f} ms | {operations / time / 1e9:.0f} | {speedup:.2f} | {share:.2f} |")


if __name__ == "__main__":
    main()
