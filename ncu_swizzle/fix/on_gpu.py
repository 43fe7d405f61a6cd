"""What only a GPU can say of a fix: the outputs of real launches, what compute-sanitizer finds, and the time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.build import compiled
from ncu_swizzle.build.toolchain import ARCH, Toolchain
from ncu_swizzle.catalog.family import Family, Kernel
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.measured import run_together, time_together
from ncu_swizzle.engines.sanitized import TOOLS, found_by
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.files import write_atomically
from ncu_swizzle.fix.claims import About, Claim, State
from ncu_swizzle.ncu import gpu

BEFORE, AFTER = "before", "after"
Draw = Mapping[str, Mapping[str, Sequence[str]]]  # by version and output: digests of some launches
SLOWER = 1.02  # how much longer the new kernel may take


def measure(before: Target, after: Target, folder: Path, toolchain: Toolchain) -> tuple[Claim, ...]:
    """Return the claims about outputs, sanitizer and time; what could not be run is unknown, with the reason."""
    family, kernels = together(before, after, folder, toolchain)
    old, new = kernels

    def outputs() -> list[Draw]:
        facts = run_together(family, kernels, before.problem, folder, toolchain.timeout_s, "outputs")
        drawn: list[Draw] = facts["outputs"]
        return drawn

    return (
        _attempt(About.OUTPUTS, lambda: _outputs(outputs())),
        _attempt(
            About.SANITIZER,
            lambda: _clean(Target(replace(family, kernels=(new,)), new, after.problem), folder, toolchain),
        ),
        _attempt(
            About.TIME,
            lambda: _time(time_together(family, (old, new), before.problem, folder, toolchain.timeout_s)["times_ms"]),
        ),
    )


def together(before: Target, after: Target, folder: Path, toolchain: Toolchain) -> tuple[Family, tuple[Kernel, Kernel]]:
    """Return both versions as two kernels of one family, so that they get the same inputs, compiled for this GPU."""
    found = gpu.devices()
    arch = before.family.arch or ("sm_{}{}".format(*found[0][1]) if found else ARCH)

    def version(target: Target, name: str) -> Kernel:
        code = folder / f"{name}.cubin"
        write_atomically(code, compiled.cubin(target.family, target.kernel, arch, toolchain))
        shared = target.kernel.shared or target.family.shared
        return replace(
            before.kernel,
            name=name,
            function=before.kernel.entry,
            baseline="",
            shared=shared,
            cubin=str(code.absolute()),
        )

    old, new = version(before, BEFORE), version(after, AFTER)
    return replace(before.family, arch=arch, kernels=(old, new)), (old, new)


def _attempt(about: About, judge: Callable[[], Claim]) -> Claim:
    try:
        return judge()
    except EnvironmentLacking as error:
        return Claim(about, State.UNKNOWN, str(error))
    except NcuSwizzleError as error:
        return Claim(about, State.FAILED, str(error))


def _outputs(draws: Sequence[Draw]) -> Claim:
    """Compare the outputs of both versions, for inputs that were drawn anew each time."""
    names = list(draws[0][BEFORE])
    for name in names:
        if any(len(set(draw[BEFORE][name])) > 1 for draw in draws):
            return Claim(About.OUTPUTS, State.UNKNOWN, f"{name} differs from launch to launch, before the fix too")
        if any(draw[BEFORE][name] != draw[AFTER][name] for draw in draws):
            return Claim(About.OUTPUTS, State.FAILED, f"{name} differs")
    if not names:
        return Claim(About.OUTPUTS, State.UNKNOWN, "no argument is described as an output")
    said = f"{', '.join(names)}: bit-identical for {len(draws)} draws of random inputs"
    return Claim(About.OUTPUTS, State.HELD, said)


def _clean(target: Target, folder: Path, toolchain: Toolchain) -> Claim:
    counts = {tool: found_by(tool, target, folder, toolchain) for tool in TOOLS}
    said = ", ".join(f"{tool}: {count} errors" for tool, count in counts.items())
    return Claim(About.SANITIZER, State.FAILED if any(counts.values()) else State.HELD, said)


def _time(times_ms: Mapping[str, list[float]]) -> Claim:
    old, new = (statistics.median(times_ms[name]) for name in (BEFORE, AFTER))
    said = f"{1000 * new:,.1f} us for {1000 * old:,.1f} us, in turns: {old / new:.2f} times as fast"
    return Claim(About.TIME, State.FAILED if new > SLOWER * old else State.HELD, said)
