"""What only a GPU can say of a fix: the outputs of real launches, and the time.

A fix that the GPU refutes is not offered.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.base.files import write_atomically
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.measured import LaunchJob, run_batch
from ncu_swizzle.fix.claims import About, Claim, ClaimState
from ncu_swizzle.fix.edits import rebuilt
from ncu_swizzle.fix.result import KernelFix, unmeasured
from ncu_swizzle.kernels import device
from ncu_swizzle.kernels.family import Family, Kernel, Target
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain, cubin

BEFORE, AFTER = "before", "after"
Draw = Mapping[str, Mapping[str, Sequence[str]]]  # by version and output: digests of some launches
Outcome = dict[str, Any] | NcuSwizzleError
SLOWER = 1.02  # how much longer the new kernel may take
SAMPLES = 15  # of each version's time
CHANCE = 0.05  # that as many turns are slower by chance, up to which they are taken for slower


def compiled_pair(before: Target, after: Target, folder: Path, toolchain: Toolchain) -> LaunchJob:
    """Compile both versions into a folder of their own. Raises what compiling raises."""
    folder.mkdir(parents=True, exist_ok=True)
    family, kernels = together(before, after, folder, toolchain)
    return LaunchJob(family=family, kernels=kernels, problem=before.problem, folder=folder)


def measure(
    pairs: Sequence[LaunchJob], folder: Path, toolchain: Toolchain, samples: int = SAMPLES
) -> list[tuple[Claim, ...]]:
    """Return the claims about outputs and time of each, all launched in one process.

    What could not be run is unknown, with the reason.
    """
    more = ["--repeats", str(samples)]
    try:
        outcomes = run_batch(pairs, folder, toolchain.timeout_s, "compare", more)
    except NcuSwizzleError as error:
        return [_claims(error)] * len(pairs)
    return [_claims(outcome) for outcome in outcomes]


def together(before: Target, after: Target, folder: Path, toolchain: Toolchain) -> tuple[Family, tuple[Kernel, Kernel]]:
    """Return both versions as two kernels of one family, so that they get the same inputs, compiled for this GPU."""
    gpus = device.devices()
    arch = before.family.arch or ("sm_{}{}".format(*gpus[0][1]) if gpus else ARCH)

    def version(target: Target, name: str) -> Kernel:
        code = folder / f"{name}.cubin"
        write_atomically(code, cubin(target.family, target.kernel, arch, toolchain))
        shared = target.kernel.launch.shared or target.family.launch.shared
        return replace(
            before.kernel,
            name=name,
            function=before.kernel.entry,
            baseline="",
            launch=replace(before.kernel.launch, shared=shared),
            cubin=str(code.absolute()),
        )

    old, new = version(before, BEFORE), version(after, AFTER)
    return replace(before.family, arch=arch, kernels=(old, new)), (old, new)


# ---------------------------------------------------------------------------------------------- outputs and time

_outputs_claim = partial(Claim, about=About.OUTPUTS)
_time_claim = partial(Claim, about=About.TIME)


def _claims(outcome: Outcome) -> tuple[Claim, ...]:
    """Return the claims about a kernel. A launch that fails says nothing if something is lacking here."""
    if isinstance(outcome, NcuSwizzleError):
        state = ClaimState.UNKNOWN if isinstance(outcome, EnvironmentLacking) else ClaimState.FAILED
        untimed = _time_claim(state=ClaimState.UNKNOWN, reason="it was not timed")
        return _outputs_claim(state=state, reason=str(outcome)), untimed
    return _outputs(outcome["outputs"]), _time(outcome["times_ms"])


def _outputs(draws: Sequence[Draw]) -> Claim:
    """Compare the outputs of both versions, for inputs that were drawn anew each time."""
    names = list(draws[0][BEFORE])
    # Such as sums of floating-point atomics, whose order is free: then different bits prove nothing.
    unsteady = [name for name in names if any(len(set(draw[BEFORE][name])) > 1 for draw in draws)]
    for name in names:
        if name not in unsteady and any(draw[BEFORE][name] != draw[AFTER][name] for draw in draws):
            return _outputs_claim(state=ClaimState.FAILED, reason=f"{name} differs")
    if unsteady:
        reason = f"{unsteady[0]} differs from launch to launch, before the fix too"
        return _outputs_claim(state=ClaimState.UNKNOWN, reason=reason)
    if not names:
        return _outputs_claim(state=ClaimState.UNKNOWN, reason="no argument is described as an output")
    said = f"{', '.join(names)}: bit-identical for {len(draws)} draws of random inputs"
    return _outputs_claim(state=ClaimState.HELD, reason=said)


def _time(times_ms: Mapping[str, list[float]]) -> Claim:
    """Judge the medians; a slower one stays open if chance alone would often make it so (a sign test).

    Launching limits kernels of a few microseconds, whose times then vary by a tenth and more.
    """
    old, new = (statistics.median(times_ms[name]) for name in (BEFORE, AFTER))
    said = f"{1000 * new:,.1f} us for {1000 * old:,.1f} us, in turns: {old / new:.2f} times as fast"
    if new <= SLOWER * old:
        return _time_claim(state=ClaimState.HELD, reason=said)
    turns = list(zip(times_ms[BEFORE], times_ms[AFTER], strict=True))
    slower = sum(after > SLOWER * before for before, after in turns)
    # The sign test: how likely that many turns, or more, are slower if each is as likely slower as not.
    by_chance = sum(math.comb(len(turns), count) for count in range(slower, len(turns) + 1)) / 2 ** len(turns)
    if by_chance <= CHANCE:
        return _time_claim(state=ClaimState.FAILED, reason=said)
    reason = f"{said}, but more than 2 % slower in {slower} of {len(turns)} turns only"
    return _time_claim(state=ClaimState.UNKNOWN, reason=reason)


# ---------------------------------------------------------------------------------------------- fixes, measured


def measured(
    kernels: Sequence[KernelFix], targets: Sequence[Target], text: bytes, toolchain: Toolchain
) -> tuple[KernelFix, ...]:
    """Return the fixes with what launching their kernels says of `text`, the source with all of them.

    If it refutes one, none is offered: they share a patch.
    """
    chosen = [number for number, kernel in enumerate(kernels) if kernel.proved or kernel.along]
    try:
        with scratch() as folder:
            pairs = []
            for number in chosen:
                with rebuilt(targets[number], text) as after:
                    pairs.append(compiled_pair(targets[number], after, folder / str(number), toolchain))
            claims = dict(zip(chosen, measure(pairs, folder, toolchain), strict=True))
    except NcuSwizzleError as error:
        return unmeasured(kernels, str(error))
    launched = tuple(replace(kernel, measured=claims.get(number, ())) for number, kernel in enumerate(kernels))
    refuted = (
        (kernel.kernel, claim) for kernel in launched for claim in kernel.measured if claim.state is ClaimState.FAILED
    )
    name, failed = next(refuted, ("", None))
    return launched if failed is None else tuple(_withdrawn(kernel, name, failed) for kernel in launched)


def _withdrawn(kernel: KernelFix, launched: str, claim: Claim) -> KernelFix:
    """Return a fix whose patch is not offered, because launching one of the kernels refutes it."""
    where = "on the GPU" if launched == kernel.kernel else f"for {launched}, on the GPU"
    otherwise = "; --no-gpu offers it without timing it" if claim.about is About.TIME else ""
    reason = f"it is proved, but {where}: {claim.reason}{otherwise}"
    tiles = tuple(
        replace(tile, proved=False, reason=reason, reason_line=tile.line, reason_file=tile.file)
        if tile.proved
        else tile
        for tile in kernel.tiles
    )
    return replace(kernel, after=kernel.before, tiles=tiles)
