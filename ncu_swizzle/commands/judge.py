"""``ncu-swizzle judge``: whether a changed kernel may take the place of the one before."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ncu_swizzle.base.errors import GateFailed, NotComparable, UsageError
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription, PairOptions
from ncu_swizzle.reports.options import Formats

if TYPE_CHECKING:
    from ncu_swizzle.engines.judgement import Judgement

Judging = Annotated[Request, Only("problem", "nvcc", "no_cache", "timeout_s")]


@grouped
def judge(
    what: Annotated[list[str], typer.Argument(metavar="BEFORE [AFTER]", help="Two .cu files, or two kernels.")],
    formats: Annotated[Formats, Only("json")],
    request: Judging,
    own: PairOptions,
    sources: CatalogOptions,
) -> None:
    """Judge a changed kernel without a GPU: exit code 0, 1 or 5.

    \b
    ncu-swizzle judge before.cu after.cu --grid 8,8 --block 32,8 --arg …
    ncu-swizzle judge kernel1 kernel2     two variants, shipped or described
    ncu-swizzle judge my.cu --before -DSWIZZLE=0 --after -DSWIZZLE=1
    \f
    Both are executed at several sizes, on inputs that follow from their machine code. Exit code 0: the second does what
    the first does, without a race, an access out of bounds, or a hang that the first does not have; 1: it does not,
    with the reason; 5: it cannot be told. docs/results.md says what is compared.
    """
    from ncu_swizzle.commands.console import Output

    judgement = judged(what, own.description(request.problem, sources), request)
    if not formats.write({"json": lambda: in_json(judgement.to_json(), indent=2) + "\n"}):
        for line in judgement.lines():
            Output().print(line, soft_wrap=True, markup=False)
    conclude(judgement, what)


def judged(what: Sequence[str], description: KernelDescription, request: Request) -> Judgement:
    """Return the judgement on two kernels, or on the variants of one file."""
    from ncu_swizzle.engines import judgement
    from ncu_swizzle.engines.emulation import EmulationSettings
    from ncu_swizzle.kernels import naming

    named = naming.resolve(what, description)
    targets = [each.targets[-1] for each in named] if len(what) > 1 else named[0].targets
    if len(targets) != 2:
        raise UsageError(f"{len(targets)} versions are named, not two", "ncu-swizzle judge before.cu after.cu")
    return judgement.judge(targets[0], targets[1], EmulationSettings.of(request.comparing, simulating=True))


def conclude(found: Judgement, what: Sequence[str]) -> None:
    """Raise GateFailed for a kernel that is refused, NotComparable for one that cannot be judged."""
    from ncu_swizzle.engines.judgement import Judged

    why = "; ".join(found.reasons)
    if found.outcome is Judged.REFUSED:
        raise GateFailed(
            f"{found.after} is refused: {why}",
            f"change {what[-1]}, and type again: {shlex.join(['ncu-swizzle', 'judge', *what])}, with the same options",
        )
    if found.outcome is Judged.UNKNOWN:
        raise NotComparable(f"{found.after} cannot be judged: {why}", "measure both on a GPU, or try ncu-swizzle prove")
