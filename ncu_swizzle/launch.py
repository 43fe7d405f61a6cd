"""The program that ncu profiles: build a catalogue kernel, check its output, launch it once or time it.

    python -m ncu_swizzle.launch --action profile --facts FILE [--problem seq=1024] kernel2

It runs in a process of its own and is the only importer of PyCUDA. What it learns (the GPU, the check's result,
times) goes to the facts file as JSON, an error too; nothing else of the project needs CUDA.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import hashlib
import importlib
import json
import math
import re
import secrets
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ncu_swizzle import catalog, paths
from ncu_swizzle.catalog import Argument, Family, Kernel, Problem
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, NotWritable, ProgramFailed, WrongOutput
from ncu_swizzle.expressions import evaluate
from ncu_swizzle.files import write_atomically

try:
    import pycuda.compiler as nvcc
    import pycuda.driver as cuda
except ImportError as _error:  # said when it is needed: main() reports every error in one way
    cuda = nvcc = None
    _missing: Exception | None = _error
else:
    _missing = None

OPTIONS = ("-lineinfo", "-std=c++17", "-O3")
POISON = 0xFF  # every byte of an output before a launch: NaN in all floating-point formats
WARM_UP = 5
SAMPLE_MS = 20.0  # a timed sample is at least this long: the host's share of a launch is hidden behind it


# ---------------------------------------------------------------------------------------------- the device


def open_device() -> Any:
    """Make the primary context current (PyTorch shares it) and return the device."""
    if cuda is None:
        raise EnvironmentLacking(
            f"PyCUDA cannot be imported: {_missing}", "pip install 'ncu-swizzle[gpu]' (needs the CUDA toolkit)"
        )
    try:
        cuda.init()
        device = cuda.Device(0)
    except cuda.Error as error:
        raise EnvironmentLacking(
            f"no usable GPU: {error}", "nvidia-smi shows what the driver sees; --engine recorded needs no GPU"
        ) from error
    context = device.retain_primary_context()
    context.push()
    atexit.register(context.pop)
    return device


def describe(device: Any) -> dict[str, Any]:
    """Return the GPU and the software around it."""
    return {
        "gpu": device.name(),
        "compute_capability": "{}.{}".format(*device.compute_capability()),
        "sm_count": device.multiprocessor_count,
        "driver": driver_version(),
        "cuda": toolkit_version(),
    }


def driver_version() -> str:
    """Return the display driver's version, such as 580.159.04; empty where it cannot be read."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else ""


def toolkit_version() -> str:
    """Return nvcc's release and build, such as 13.0 (V13.0.88)."""
    try:
        text = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise EnvironmentLacking(f"nvcc cannot be run: {error}", "put the CUDA toolkit's bin folder on PATH") from error
    found = re.search(r"release (\S+), (\S+)", text)
    return f"{found[1]} ({found[2]})" if found else text.strip()


# ---------------------------------------------------------------------------------------------- building


def build(family: Family, kernel: Kernel, arch: str, toolkit: str) -> bytes:
    """Return the cubin, compiled unless the same sources, options and compiler were seen before."""
    cubin = paths.cache() / f"{kernel.name}-{arch}-{_digest(family, kernel, arch, toolkit)[:32]}.cubin"
    if cubin.is_file():
        return cubin.read_bytes()
    source = family.source(kernel)
    if not source.is_file():
        raise ProgramFailed(f"{source} is missing", "compare the variant's name in family.toml with its file's")
    try:
        with warnings.catch_warnings():  # PyCUDA warns of whatever nvcc says on stderr
            warnings.simplefilter("ignore", UserWarning)
            code: bytes = nvcc.compile(
                f'#include "{source}"\n',
                options=list(OPTIONS),
                arch=arch,
                no_extern_c=True,
                cache_dir=False,
                include_dirs=[str(catalog.include_folder(family.folder)), str(family.folder)],
            )
    except cuda.CompileError as error:
        raise ProgramFailed(f"nvcc could not compile {source.name}: {error}", f"mend {source}") from error
    with contextlib.suppress(NotWritable):  # without a cache the next run compiles again, that is all
        write_atomically(cubin, code)
    return code


def _digest(family: Family, kernel: Kernel, arch: str, toolkit: str) -> str:
    # Paths count too: -lineinfo writes them into the cubin.
    sources = [part for item in family.source_texts().items() for part in item]
    parts = [str(family.folder), kernel.name, arch, toolkit, *OPTIONS, *sources]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


# ---------------------------------------------------------------------------------------------- buffers


def numpy_dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)  # type: ignore[no-any-return]
    return np.dtype(name)


def shape(argument: Argument, problem: Problem) -> tuple[int, ...]:
    return tuple(evaluate(size, problem) for size in argument.shape)


@dataclass(frozen=True)
class Buffers:
    """The arguments of a family's kernels, on the host (inputs) and on the GPU (all of them)."""

    inputs: Mapping[str, np.ndarray]
    device: tuple[Any, ...]

    @classmethod
    def random(cls, family: Family, problem: Problem, rng: np.random.Generator) -> Buffers:
        """Allocate everything, the inputs filled with standard normal numbers."""
        inputs: dict[str, np.ndarray] = {}
        device: list[Any] = []
        for argument in family.arguments:
            dtype = numpy_dtype(argument.dtype)
            if not argument.shape:
                device.append(dtype.type(evaluate(argument.value, problem)))
            elif argument.output:
                device.append(cuda.mem_alloc(math.prod(shape(argument, problem)) * dtype.itemsize))
            else:
                normal = rng.standard_normal(shape(argument, problem), dtype=np.float32)
                inputs[argument.name] = normal.astype(dtype)
                device.append(cuda.to_device(inputs[argument.name].view(np.uint8)))
        return cls(inputs, tuple(device))

    def poison(self, family: Family, problem: Problem) -> None:
        for argument, pointer in zip(family.arguments, self.device, strict=True):
            if argument.output:
                size = math.prod(shape(argument, problem)) * numpy_dtype(argument.dtype).itemsize
                cuda.memset_d8(pointer, POISON, size)

    def output(self, argument: Argument, family: Family, problem: Problem) -> np.ndarray:
        host = np.empty(shape(argument, problem), numpy_dtype(argument.dtype))
        cuda.memcpy_dtoh(host.view(np.uint8), self.device[family.arguments.index(argument)])
        return host


# ---------------------------------------------------------------------------------------------- launching


def launcher(family: Family, kernel: Kernel, problem: Problem, cubin: bytes, buffers: Buffers) -> Callable[[], None]:
    """Return a function that launches the kernel once, asynchronously."""
    function = cuda.module_from_buffer(cubin).get_function(kernel.entry)
    grid, block = family.geometry(problem)
    return lambda: function(*buffers.device, grid=grid, block=block)


def check(
    family: Family,
    kernel: Kernel,
    problem: Problem,
    launch: Callable[[], None],
    buffers: Buffers,
    expected: Mapping[str, tuple[Any, np.ndarray]],
) -> dict[str, float]:
    """Launch once over poisoned outputs and return the worst relative error of each; raise WrongOutput."""
    buffers.poison(family, problem)
    launch()
    cuda.Context.synchronize()
    errors = {}
    for argument in (a for a in family.arguments if a.output):
        out = buffers.output(argument, family, problem)
        unwritten = int(np.count_nonzero(~np.isfinite(out)))
        if unwritten:
            raise WrongOutput(
                f"{kernel.name}: {unwritten:,} of {out.size:,} elements of {argument.name} are NaN or infinite",
                "elements that the kernel never wrote keep the NaN that they were poisoned with",
            )
        index, values = expected[argument.name]
        errors[argument.name] = worst = row_error(out[index].astype(np.float64), values)
        if not worst <= argument.tolerance:  # NaN is wrong too
            raise WrongOutput(
                f"{kernel.name}: {argument.name} differs from the reference by {worst:.2g} of its size "
                f"(allowed: {argument.tolerance:.2g})",
                "a tile must be read through the layout that it was written through",
            )
    return errors


def row_error(out: np.ndarray, reference: np.ndarray) -> float:
    """Return the largest |out - reference| / |reference| (2-norms) of any row along the last axis."""
    difference = np.linalg.norm(out - reference, axis=-1)
    return float(np.max(difference / np.linalg.norm(reference, axis=-1)))


def time_launches(launches: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Return the milliseconds of each launch, `repeats` samples, the kernels taking turns."""
    per_sample = {name: _launches_per_sample(launch) for name, launch in launches.items()}
    times: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(repeats):
        for name, launch in launches.items():
            times[name].append(_time(launch, per_sample[name]))
    return times


def _launches_per_sample(launch: Callable[[], Any]) -> int:
    _time(launch, WARM_UP)
    return max(1, math.ceil(SAMPLE_MS / _time(launch, WARM_UP)))


def _time(launch: Callable[[], Any], count: int) -> float:
    start, end = cuda.Event(), cuda.Event()
    start.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return float(start.time_till(end)) / count


# ---------------------------------------------------------------------------------------------- the program


def prepare(
    family: Family, kernels: Sequence[Kernel], problem: Problem, device: Any, facts: dict[str, Any]
) -> dict[str, Callable[[], Any]]:
    """Build and check the kernels, add each one's errors to the facts, and return what launches it."""
    rng = np.random.default_rng(facts["seed"])
    reference = importlib.import_module(family.reference)
    launches = {kernel.name: reference.library(problem) for kernel in kernels if kernel.library}
    own = [kernel for kernel in kernels if not kernel.library]
    if own:
        buffers = Buffers.random(family, problem, rng)
        expected = reference.expected(buffers.inputs, problem, rng)
        arch = "sm_{}{}".format(*device.compute_capability())
    for kernel in own:
        cubin = build(family, kernel, arch, facts["machine"]["cuda"])
        launches[kernel.name] = launcher(family, kernel, problem, cubin, buffers)
        facts["errors"][kernel.name] = check(family, kernel, problem, launches[kernel.name], buffers, expected)
    return {kernel.name: launches[kernel.name] for kernel in kernels}


def profile_once(launch: Callable[[], Any]) -> None:
    """Launch inside the range that ncu's ``--profile-from-start off`` waits for."""
    launch()  # warm, outside the range
    cuda.Context.synchronize()
    cuda.start_profiler()
    launch()
    cuda.Context.synchronize()
    cuda.stop_profiler()


def run(arguments: argparse.Namespace, facts: dict[str, Any]) -> None:
    """Do what the command line asks for; `facts` holds what was learned, however far it came."""
    family, kernels = catalog.load(*arguments.catalog).find_together(arguments.kernel)
    problem = family.problem(dict(arguments.problem))
    device = open_device()
    facts |= {
        "kernel": kernels[0].name,
        "title": kernels[0].title,
        "family": family.name,
        "problem": problem,
        "seed": arguments.seed,
        "machine": describe(device),
        "sources": {} if kernels[0].library else family.source_texts(),
        "source_root": str(family.folder.parent.parent),
        "errors": {},
    }
    launches = prepare(family, kernels, problem, device, facts)
    if arguments.action == "time":
        facts["times_ms"] = time_launches(launches, arguments.repeats)
    elif arguments.action == "profile":
        profile_once(launches[kernels[0].name])


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ncu_swizzle.launch", description=__doc__)
    parser.add_argument("kernel", nargs="+", help="kernels of one family")
    parser.add_argument("--action", choices=("check", "profile", "time"), default="check")
    parser.add_argument("--facts", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--catalog", type=Path, action="append", default=[], help="a folder of families")
    parser.add_argument("--problem", type=_size, action="append", default=[], metavar="NAME=SIZE")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32), help="of the random inputs")
    parser.add_argument("--repeats", type=int, default=50, help="timed samples of each kernel")
    return parser.parse_args(argv)


def _size(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    return name, int(value)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    facts: dict[str, Any] = {}
    try:
        run(arguments, facts)
    except Exception as error:  # whatever it is, the parent process has to hear of it
        known = explain(error)
        facts["error"] = {"type": type(known).__name__, "message": str(known), "hint": known.hint}
        traceback.print_exception(error)
        return known.exit_code
    finally:
        write_atomically(arguments.facts, json.dumps(facts).encode())
    return 0


def explain(error: Exception) -> NcuSwizzleError:
    """Return the error as one of ours: CUDA's and PyTorch's failures are the program's."""
    if isinstance(error, NcuSwizzleError):
        return error
    if "out of memory" in str(error):
        return ProgramFailed(f"the GPU's memory does not suffice: {error}", "try a smaller --problem")
    if cuda is not None and isinstance(error, cuda.Error):
        return ProgramFailed(f"the kernel failed: {error}", "run the launch under compute-sanitizer")
    return ProgramFailed(
        f"the launching program failed: {type(error).__name__}: {error}",
        "python -m ncu_swizzle.launch --facts facts.json KERNEL shows where",
    )


if __name__ == "__main__":
    sys.exit(main())
