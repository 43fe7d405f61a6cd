"""The recorded launches as cycles.py simulates them: what each instruction costs, and what its warps execute.

Recorded are those of bench/figures/pairs and of the catalogue, without the libraries' kernels, whose arguments are not
known. Of a report's counters the model gets executions and shared-memory wavefronts per instruction, which the emulator
equals elsewhere, and how many blocks fit on an SM. Of those of bench/figures/costs and bench/figures/fresh, which are
compiled here, executions and wavefronts are the emulator's, too.
"""

from __future__ import annotations

import json
import lzma
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from bench.figures import costs_changes, pairs
from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cycles.case import PART
from ncu_swizzle.cycles.simulator import REASONS
from ncu_swizzle.cycles.work import BlockExecution, Row, Work, execution, work_of
from ncu_swizzle.emulate.counts import Launch as Emulated
from ncu_swizzle.engines import emulated_launch, emulated_profile, emulation, reader
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.toolchain import Toolchain, disassembly
from ncu_swizzle.reports import container
from ncu_swizzle.reports.attribution import FrameOwners
from ncu_swizzle.reports.model import Profile

PATIENCE_S = 900.0

# The units that ncu gives the utilization of, for which one binds.
UNITS = {
    "shared": "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed",
    "dram": "dram__bytes.sum.pct_of_peak_sustained_elapsed",
    "l2": "lts__t_sectors.sum.pct_of_peak_sustained_elapsed",
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active",
}
# Reasons of ncu's that are told by another name here; what is in none of them is `drain`, after the last instruction.
REASON_OF = {
    **{name: name for name in REASONS},
    **dict.fromkeys(("dispatch_stall", "branch_resolving"), "wait"),
    **dict.fromkeys(("membar", "warpgroup_arrive"), "barrier"),
    "lg_throttle": "mio_throttle",
    "imc_miss": "no_instructions",
}
DRAM_BYTES = 3.35e12  # per second, at the peak that ncu relates to


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch: what is simulated of it, and what ncu measured, for judging."""

    name: str
    family: str
    work: Work
    kinds: tuple[str, ...]  # of access, with a good part of the excess
    cycles: float
    dram: float
    used: Mapping[str, float]
    samples: np.ndarray  # (n, REASONS)
    drained: float  # the share of all samples that is in none of these reasons
    lines: tuple[Location | None, ...]  # of the instructions, as ncu shows them

    def of_dram(self, counted: bool) -> tuple[float, float] | None:
        """Return the bytes of DRAM that are read and written, by ncu if `counted`."""
        if not counted:
            return None
        loaded, stored = self.work.asked
        read = min(self.dram, loaded)
        return read, min(stored, self.dram - read)


Result = TypeVar("Result")


def on_all_cores(function: Callable[..., Result], given: Iterable[Sequence[Any]]) -> list[Result]:
    """Return what a function returns for each of some arguments; a process per core calls it."""
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("fork")) as pool:
        return [each.result() for each in [pool.submit(function, *arguments) for arguments in given]]


def launches(kept: Path) -> list[Launch]:
    """Return the launches: before and after each pair of bench/figures/pairs, then the catalogue.

    What warps execute is emulated, unless the folder `kept` has it from an earlier run.
    """
    return on_all_cores(_launch, [(*each, kept) for each in _recorded()])


Recorded = tuple[str, str, Profile, Cubin, str, Emulated, tuple[float, float]]


def _recorded() -> Iterator[Recorded]:
    """Yield the parameters of `_launch` but the last, of each launch."""
    names = [pair["pair"] for pair in json.loads((pairs.RECORDED / pairs.TIMES).read_text("utf-8"))["pairs"]]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "pairs.ncu-rep")
        report.write_bytes(lzma.decompress((pairs.RECORDED / pairs.REPORT).read_bytes()))
        for number, (profile, cubin, symbol) in enumerate(_results(report)):
            given = arguments(names[number // 2])
            shape = LaunchShape(grid=tuple(profile.grid), block=tuple(profile.block))
            emulated = emulated_launch.launch(cubin, symbol, shape, [value_of(each) for each in given])
            buffers = [each.nbytes for each in given if isinstance(each, np.ndarray)]
            family = profile.kernel.function.partition("<")[0].rpartition("::")[2]
            name = f"{names[number // 2]} {('before', 'after')[number % 2]}"
            yield name, family, profile, cubin, symbol, emulated, (sum(buffers[1:]), buffers[0])
    for family, kernel in catalog.shipped().run():
        if kernel.library:
            continue
        target = catalog.shipped().target(kernel.name)
        for profile, cubin, symbol in _results(paths.recording(family.name, kernel.name)):
            emulated = emulated_launch.launch_of(target, cubin, symbol)
            yield kernel.name, family.name, profile, cubin, symbol, emulated, emulated_profile.buffer_bytes(target)


def value_of(parameter: np.ndarray | int) -> emulated_launch.ArgumentValue:
    if isinstance(parameter, int):
        return emulated_launch.ArgumentValue(scalar=parameter.to_bytes(4, "little"))
    return emulated_launch.ArgumentValue(size=parameter.nbytes, content=parameter.tobytes())


def _results(report: Path) -> Iterator[tuple[Profile, Cubin, str]]:
    for profile, result in zip(reader.read(report), container.inspect(report).results, strict=True):
        yield profile, Cubin(result.cubin, result.function), result.function


def _launch(
    name: str, family: str, profile: Profile, cubin: Cubin, symbol: str, emulated: Emulated,
    buffers: tuple[float, float], kept: Path,
) -> Launch:  # fmt: skip
    numbers = {metric: value for metric in profile.metrics if (value := profile.number(metric)) is not None}
    executed = kept_execution(kept / f"{name.replace(' ', '-')}.npz", cubin, symbol, emulated)
    return described(name, family, profile, cubin.section(f".text.{symbol}"), executed, numbers, buffers)


def described(
    name: str, family: str, profile: Profile, text: bytes, executed: BlockExecution, numbers: Mapping[str, float],
    buffers: tuple[float, float],
) -> Launch:  # fmt: skip
    """Return a launch: `profile` has executions and wavefronts per instruction, `numbers` are ncu's metrics."""
    limits = [numbers[f"launch__occupancy_limit_{what}"] for what in ("registers", "shared_mem", "warps", "blocks")]
    seconds, start = numbers["gpu__time_duration.sum"] * 1e-9, min(each.pc for each in profile.instructions)
    rows = [
        Row(
            number=(each.pc - start) // 16, opcode=each.opcode, sass=each.sass,
            wavefronts=(each.wavefronts or 0) / each.executed if each.executed else 0.0,
        )
        for each in profile.instructions
    ]  # fmt: skip
    samples, every = np.zeros((len(rows), len(REASONS))), 0
    for row, each in zip(samples, profile.instructions, strict=True):
        for reason, count in each.samples.items():
            every += count
            if reason in REASON_OF:
                row[REASONS.index(REASON_OF[reason])] += count
    owners = FrameOwners(profile)
    grid, resident = int(numbers["launch__grid_size"]), int(min(limits))
    return Launch(
        name=name, family=family,
        work=work_of(rows, text, executed, grid=grid, resident=resident, buffers=buffers),
        kinds=conflicting(profile),
        cycles=seconds * numbers["smsp__cycles_elapsed.avg.per_second"],
        dram=numbers.get(UNITS["dram"], 0.0) / 100 * DRAM_BYTES * seconds,
        used={unit: numbers.get(metric, 0.0) / 100 for unit, metric in UNITS.items()},
        samples=samples, drained=1 - samples.sum() / every if every else 0.0,
        lines=tuple(owners.named(each) for each in profile.instructions),
    )  # fmt: skip


def conflicting(profile: Profile) -> tuple[str, ...]:
    """Return the kinds of access with a good part of the excess."""
    excess = {kind: total.excessive or 0 for kind, total in profile.accesses.items()}
    return tuple(kind for kind, count in excess.items() if count > PART * sum(excess.values()))


# ---------------------------------------------------------------------------------------------- compiled here

SEED = 1  # of inputs that decide what is executed


def compiled(kept: Path, folder: Path) -> list[tuple[Launch, Launch]]:
    """Return the launches before and after each change, at all sizes that were measured."""
    recorded = lzma.decompress((folder / "recorded" / "costs.json.xz").read_bytes())
    rows = {row["pair"]: row for row in json.loads(recorded)["rows"]}
    changes = costs_changes.compiled(costs_changes.of_own(folder), kept / "cubins")
    jobs = [job for job in costs_changes.jobs(changes) if job.name in rows]
    found = on_all_cores(_pair, [(job, rows[job.name], kept) for job in jobs])
    return [pair for pair in found if pair]


def _pair(job: costs_changes.Job, row: Mapping[str, Any], kept: Path) -> tuple[Launch, Launch] | None:
    try:
        before, after = (_compiled(job, side, target, row[side]["metrics"], kept) for side, target in job.change.sides)
    except NcuSwizzleError as error:
        print(f"{job.name} is not emulated: {error}", flush=True)
        return None
    return before, after


def _compiled(job: costs_changes.Job, side: str, target: Target, metrics: Mapping[str, Any], kept: Path) -> Launch:
    target = replace(target, problem=job.problem)
    found = emulation.executable(target, emulation.EmulationSettings(Toolchain(timeout_s=300), budget_s=300))
    binary, sample = found.emulated.binary, target.family.sample
    launch = found.launch(SEED if sample is None else sample)
    executed = kept_execution(kept / f"{job.name}-{side}.npz", binary.cubin, binary.symbol, launch)
    numbers = {name: value[0] if isinstance(value, list) else value for name, value in metrics.items()}
    text = binary.cubin.section(f".text.{binary.symbol}")
    buffers = emulated_profile.buffer_bytes(target)
    return described(job.name, job.change.program, found.emulated.profile, text, executed, numbers, buffers)


# ---------------------------------------------------------------------------------------------- what is executed


def kept_execution(file: Path, cubin: Cubin, symbol: str, launch: Emulated) -> BlockExecution:
    """Return what the warps execute, from the file if it is there, which is written otherwise."""
    if file.is_file():
        with np.load(file) as held:
            cuts = np.cumsum(held["lengths"])[:-1]
            return BlockExecution(
                numbers=tuple(np.split(held["numbers"], cuts)), details=tuple(np.split(held["details"], cuts)),
                parts=held["parts"], boxes={int(number): (size, rows) for number, size, rows in held["boxes"]},
                partly=tuple(held["partly"].tolist()),
            )  # fmt: skip
    toolchain = Toolchain(timeout_s=300)
    code = emulated_launch.code(cubin, symbol, disassembly(cubin, toolchain))
    found = execution(code, launch, PATIENCE_S)
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        file, numbers=np.concatenate(found.numbers), details=np.concatenate(found.details), parts=found.parts,
        lengths=[len(each) for each in found.numbers], partly=found.partly,
        boxes=np.array([(number, *both) for number, both in found.boxes.items()]).reshape(-1, 3),
    )  # fmt: skip
    return found


# Parameters of bench/figures/pairs' kernels, the output first; bench/figures/pairs/*.cuh have the sizes.
PRODUCTS = {
    "sgemm_tiles": (256, 256, 256), "sgemm_registers": (512, 512, 256), "sgemm_async": (512, 1024, 256),
    "mma": (512, 512, 1024), "mma_pipelined": (512, 512, 1024), "mma_few_blocks": (64, 512, 2048),
    "wmma": (512, 512, 512), "unseen_sgemm_tiles": (512, 512, 512), "unseen_sgemm_registers": (1024, 1024, 256),
    "unseen_sgemm_async": (256, 512, 512), "unseen_mma": (1024, 1024, 512), "unseen_mma_pipelined": (256, 512, 2048),
    "unseen_wmma": (256, 256, 1024),
}  # fmt: skip
TRANSPOSED: dict[str, tuple[int, type]] = {
    "transpose_256": (256, np.float32), "transpose_1024": (1024, np.float32), "transpose_doubles": (512, np.float64),
    "transpose_halves": (1024, np.uint16), "transpose_bytes": (1024, np.uint8),
    "unseen_transpose_512": (512, np.float32), "unseen_transpose_2048": (2048, np.float32),
    "unseen_transpose_doubles": (1024, np.float64), "unseen_transpose_halves": (512, np.uint16),
    "unseen_transpose_bytes": (2048, np.uint8),
}  # fmt: skip
# Words of the output, and of each input of floats.
FLOATS = {
    "exchange": (132 * 256, 132 * 256), "sum_rows_async": (1056 * 1024, 1056 * 8192),
    "sum_rows_few_blocks": (66 * 1024, 66 * 8192), "unseen_sum_rows": (264 * 1024, 264 * 8192),
    "several": (264 * 1024, 264 * 1024), "reduce": (528, 528 * 256), "scan": (264 * 512, 264 * 512),
    "scan_one_block": (512, 512), "unseen_scan": (1056 * 512, 1056 * 512), "fft": (100 * 1024, 100 * 1024),
    "solve": (48 * 512, 48 * 512, 48 * 512, 48 * 512), "particles": (396 * 64, 396 * 512),
    "smooth": (90 * 4096, 90 * 4096), "softmax": (264 * 4096, 264 * 4096),
    "softmax_few_blocks": (12 * 4096, 12 * 4096), "unseen_softmax_66": (66 * 4096, 66 * 4096),
    "unseen_softmax_1056": (1056 * 4096, 1056 * 4096), "normalize": (16 * 8192, 16 * 8192),
    "dot_rows": (132 * 256, 132 * 2048, 8 * 64),
}  # fmt: skip
# Words of the output, words and limit of each input of integers (0: a permutation).
INTEGERS: dict[str, tuple[int, tuple[tuple[int, int], ...]]] = {
    "chase_one_warp": (66 * 32, ((32, 0),)), "chase_eight_warps": (132 * 256, ((32, 0),)),
    "unseen_chase_two_warps": (132 * 64, ((32, 0),)), "unseen_chase_few_blocks": (16 * 512, ((32, 0),)),
    "automaton": (40 * 64, ((64, 0), (40 * 100 * 64, 64))), "count_private": (32 * 64, ((32 * 128 * 64, 64),)),
    "count_copies": (132 * 64, ((132 * 32 * 256, 64), (132 * 32 * 256, 100))),
    "add_columns": (24 * 1024, ((24 * 64 * 128, 1000),)),
}  # fmt: skip
COUNTS = {
    "exchange": 20, "particles": 16, "chase_one_warp": 256, "chase_eight_warps": 256, "unseen_chase_two_warps": 128,
    "unseen_chase_few_blocks": 128, "automaton": 100, "count_private": 128, "count_copies": 32, "add_columns": 64,
}  # fmt: skip


def arguments(pair: str) -> list[Any]:
    """Return the parameters of a pair's launches."""
    rng = np.random.default_rng(41)
    if pair in TRANSPOSED:
        n, kind = TRANSPOSED[pair]
        return [np.zeros(n * n, kind), rng.integers(0, 256, n * n).astype(kind), n]
    if pair in PRODUCTS:
        m, n, k = PRODUCTS[pair]
        half = np.float16 if "mma" in pair else np.float32
        return [np.zeros(m * n, np.float32), *(rng.random(size * k).astype(half) for size in (m, n)), n, k]
    count = [COUNTS[pair]] if pair in COUNTS else []
    if pair in FLOATS:
        out, *inputs = FLOATS[pair]
        return [np.zeros(out, np.float32), *(rng.random(size, np.float32) * 2 - 1 for size in inputs), *count]
    out, given = INTEGERS[pair]
    drawn = [rng.integers(0, below, size) if below else rng.permutation(size) for size, below in given]
    return [np.zeros(out, np.int32), *(each.astype(np.int32) for each in drawn), *count]
