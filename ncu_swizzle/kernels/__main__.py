"""The program that ncu profiles: build a catalogue kernel, check its output, launch it once or time it.

    python -m ncu_swizzle.kernels --action profile --facts FILE [--problem seq=1024] kernel2
    python -m ncu_swizzle.kernels --description FILE --facts FILE fn      a user's family, see `family`
    python -m ncu_swizzle.kernels --jobs FILE       several, one after the other, in a process that opens the GPU once

It runs as a separate process. Its results (the GPU, output errors, times) go to the facts file as JSON, and so does any
failure; nothing else in the project needs CUDA. The jobs are a JSON list; each has the `folder` that it runs in and
the `arguments` of a command line as above. Each leaves its own facts, or its failure, and the next one runs.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import (
    OUT_OF_MEMORY,
    EnvironmentLacking,
    NcuSwizzleError,
    ProgramFailed,
    WrongOutput,
    as_json,
)
from ncu_swizzle.base.files import brief, read_bytes, write_atomically
from ncu_swizzle.base.texts import encodable, on_terminal
from ncu_swizzle.base.validate import parse_integer
from ncu_swizzle.kernels import fills, launching, references, toolchain
from ncu_swizzle.kernels.catalog import Catalog, load, shipped
from ncu_swizzle.kernels.family import Family, Kernel, Problem, read
from ncu_swizzle.kernels.git import commit_of_family
from ncu_swizzle.kernels.launching import Buffers, ReadyKernel, launcher, profile_once
from ncu_swizzle.kernels.limits import evaluate

DRAWS, LAUNCHES = 3, 3  # of inputs, and with each, whose outputs are compared: those of atomics may differ
COPY = "a copy of as many bytes"  # timed next to memory-bound kernels


def output_errors(
    family: Family,
    kernel: Kernel,
    problem: Problem,
    launch: Callable[[], None],
    buffers: Buffers,
    expected: Mapping[str, tuple[Any, np.ndarray]],
) -> dict[str, float]:
    """Launch once with poisoned outputs and return the worst relative error of each; raise WrongOutput.

    Without a reference `expected` is empty: the launch only has to succeed.
    """
    buffers.reset(family, problem)
    launch()
    launching.synchronize()
    errors = {}
    for argument in (a for a in family.arguments if a.name in expected):
        out = buffers.output(argument, family, problem)
        unwritten = int(np.count_nonzero(~np.isfinite(out)))
        if unwritten:
            raise WrongOutput(
                f"{kernel.name}: {unwritten:,} of {out.size:,} elements of {argument.name} are NaN or infinite",
                "outputs are poisoned with NaN before the launch: these elements were probably never written",
            )
        index, values = expected[argument.name]
        errors[argument.name] = worst = references.row_error(out[index].astype(np.float64), values)
        if not worst <= argument.tolerance:  # NaN is wrong too
            raise WrongOutput(
                f"{kernel.name}: {argument.name} differs from the reference: relative error {worst:.2g} "
                f"(allowed: {argument.tolerance:.2g})",
                "read each tile with the same layout that it was written with",
            )
    return errors


def prepare(
    family: Family, kernels: Sequence[Kernel], problem: Problem, gpu: Any, facts: dict[str, Any], cached: bool = True
) -> dict[str, Callable[[], Any]]:
    """Build and check the kernels, add their errors to the facts, and return a launch function for each."""
    rng = np.random.default_rng(facts["seed"])
    launches = {kernel.name: references.library_call(family, problem) for kernel in kernels if kernel.library}
    own = [kernel for kernel in kernels if not kernel.library]
    if own:
        inputs = fills.inputs(family, problem, rng)
        expected = references.expected_outputs(family, problem, inputs, rng) if family.reference else {}
        buffers = Buffers.upload(family, problem, inputs)
        arch = "sm_{}{}".format(*gpu.compute_capability())
        nvcc = launching.PyCudaCompiler()
    for kernel in own:
        code = Path(kernel.cubin)  # of a front end
        cubin = (
            read_bytes(code)
            if kernel.cubin
            else toolchain.cubin(family, kernel, family.architecture(kernel, arch), nvcc, cached)
        )
        launches[kernel.name] = launcher(family, kernel, problem, cubin, buffers)
        facts["errors"][kernel.name] = output_errors(
            family, kernel, problem=problem, launch=launches[kernel.name], buffers=buffers, expected=expected
        )
    return {kernel.name: launches[kernel.name] for kernel in kernels}


def run(arguments: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Do what the command line asks for; fill `facts` on the way, so that they survive a failure."""
    if arguments.description:
        catalog = Catalog((read(arguments.description),))
    else:
        catalog = load(*arguments.catalog) if arguments.catalog else shipped()
    family, kernels = catalog.named_together(arguments.kernel)
    problem = family.problem(dict(arguments.problem))
    gpu = launching.open_device()
    facts |= {
        **what_runs(family, kernels[0], problem),
        "seed": arguments.seed,
        "machine": launching.describe(gpu),
        "errors": {},
    }
    launching.refuse_older(gpu, family)
    for kernel in kernels:
        launching.refuse_other_architecture(gpu, family, kernel)
    launches = prepare(family, kernels, problem=problem, gpu=gpu, facts=facts, cached=not arguments.no_cache)
    if arguments.action == "time":
        bytes_ = evaluate(family.bytes, problem)
        copying = {COPY: launching.copier(bytes_)} if bytes_ else {}
        facts["times_ms"] = launching.time_launches({**launches, **copying}, arguments.repeats)
        facts["copy_ms"] = facts["times_ms"].pop(COPY, [])
    elif arguments.action == "compare":
        facts["outputs"] = [
            outputs(family, prepare(family, kernels, problem, gpu, {**facts, "seed": seed}), problem)
            for seed in range(arguments.seed, arguments.seed + DRAWS)
        ]
        facts["times_ms"] = launching.time_launches(launches, arguments.repeats)
    elif arguments.action == "profile":
        profile_once(launches[kernels[0].name], family, problem)


def outputs(family: Family, launches: Mapping[str, Callable[[], Any]], problem: Problem) -> dict[str, Any]:
    """Return, by kernel and output, a digest after each of several launches with the same inputs."""
    arguments = [argument for argument in family.arguments if argument.output]
    digests: dict[str, dict[str, list[str]]] = {}
    for name, launch in launches.items():
        if not isinstance(launch, ReadyKernel):
            continue  # a library's
        mine = digests[name] = {argument.name: [] for argument in arguments}
        for _ in range(LAUNCHES):
            launch.buffers.reset(family, problem)
            launch()
            launching.synchronize()
            for argument in arguments:
                content = launch.buffers.output(argument, family, problem).tobytes()
                mine[argument.name].append(cache.sha256(content))
    return digests


def what_runs(family: Family, kernel: Kernel, problem: Problem) -> dict[str, Any]:
    """Return the facts known before anything runs: the kernel, its problem, and its sources."""
    return {
        "kernel": kernel.name,
        "title": kernel.title,
        "family": family.name,
        "problem": problem,
        "commit": commit_of_family(family),
        "sources": {} if kernel.library else family.source_texts(),
        "source_roots": [encodable(str(root)) for root in toolchain.source_roots(family)],
    }


def parse_command_line(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ncu_swizzle.kernels", description=__doc__)
    parser.add_argument("kernel", nargs="+", help="kernels of one family")
    parser.add_argument("--action", choices=("check", "compare", "profile", "time"), default="check")
    parser.add_argument("--facts", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--catalog", type=Path, action="append", default=[], help="a folder of families")
    parser.add_argument("--description", type=Path, help="a family, in place of a catalogue")
    parser.add_argument("--problem", type=_size, action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32), help="seed of the random inputs")
    parser.add_argument("--no-cache", action="store_true", help="compile again, and keep nothing")
    parser.add_argument("--repeats", type=int, default=15, help="timed samples of each kernel")
    return parser.parse_args(argv)


def _size(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    return name, parse_integer(value)


def main(argv: Sequence[str]) -> int:
    """Do the job of a command line, or the jobs of a file; return the worst exit status."""
    if argv[:1] != ["--jobs"]:
        return done(argv)
    status = 0
    for job in json.loads(Path(argv[1]).read_text(encoding="utf-8")):
        os.chdir(job["folder"])
        status = max(status, done(job["arguments"]))
    return status


def done(argv: Sequence[str]) -> int:
    """Return the exit status of one job, whose facts, or failure, are in its file then."""
    arguments = parse_command_line(argv)
    facts: dict[str, Any] = {}
    try:
        run(arguments, facts)
    except Exception as error:  # whatever it is, report it to the parent process
        reported = explain(error)
        facts["error"] = as_json(reported)
        print(on_terminal("".join(traceback.format_exception(error))), file=sys.stderr, end="")
        return reported.exit_code
    finally:
        write_atomically(arguments.facts, json.dumps(facts).encode())
    return 0


def explain(error: Exception) -> NcuSwizzleError:
    """Return the error as one of ours: CUDA and PyTorch errors become ProgramFailed."""
    if isinstance(error, NcuSwizzleError):
        return error
    if isinstance(error, MemoryError):
        return EnvironmentLacking(f"out of memory: {brief(error)}", OUT_OF_MEMORY)
    if "out of memory" in str(error):
        return ProgramFailed(f"the GPU is out of memory: {error}", "use a smaller --problem")
    if isinstance(error, launching.CUDA_ERRORS):
        return ProgramFailed(
            f"the kernel failed: {error}",
            "compute-sanitizer finds the faulty access: compute-sanitizer --target-processes all ncu-swizzle profile "
            "--no-ncu …, with the arguments you gave",
        )
    return ProgramFailed(
        f"the launching program failed: {type(error).__name__}: {error}",
        "python -m ncu_swizzle.kernels --facts facts.json KERNEL shows the traceback",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
