"""``ncu-swizzle profile``: what a kernel does to shared memory, beside its baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import options, own
from ncu_swizzle.commands.options import CacheControl, ClockControl, Engine, ReplayMode


def profile(
    context: typer.Context,
    kernel: Annotated[str, typer.Argument(help="A kernel of the catalogue (ncu-swizzle list), or your own .cu file.")],
    baseline: Annotated[
        str, typer.Option(metavar="NAME|FILE|none", help="What to compare with; auto: what the catalogue names.")
    ] = "auto",
    reference: Annotated[
        str, typer.Option(metavar="NAME|FILE|none", help="A third column; auto: the library's kernel, if it is there.")
    ] = "auto",
    engine: options.EngineOption = Engine.auto,
    problem: options.ProblemOption = [],  # noqa: B006 - typer takes a list as it is
    export: Annotated[
        Path | None,
        typer.Option("--export", "-o", metavar="FOLDER", help="Where to write; default: swizzle-out/KERNEL."),
    ] = None,
    force_overwrite: Annotated[
        bool, typer.Option("--force-overwrite", "-f", help="Replace what an earlier run wrote to FOLDER.")
    ] = False,
    json: options.JsonOption = None,
    markdown: options.MarkdownOption = None,
    csv: options.CsvOption = None,
    clock_control: options.ClockOption = ClockControl.none,
    cache_control: options.CacheOption = CacheControl.all,
    replay_mode: options.ReplayOption = ReplayMode.kernel,
    launch_count: Annotated[int, typer.Option("--launch-count", "-c", min=1, help="As ncu's.")] = 1,
    ncu: options.NcuOption = None,
    timeout: options.TimeoutOption = 600,
    entry: own.EntryOption = "",
    grid: own.GridOption = "",
    block: own.BlockOption = "",
    shared: own.SharedOption = "",
    arg: own.ArgOption = [],  # noqa: B006
    define: own.DefineOption = [],  # noqa: B006
    include: own.IncludeOption = [],  # noqa: B006
    std: own.StandardOption = "",
    nvcc_option: own.NvccOption = [],  # noqa: B006
    before: own.BeforeOption = [],  # noqa: B006
    after: own.AfterOption = [],  # noqa: B006
    config: own.ConfigOption = "",
    catalog: own.CatalogOption = [],  # noqa: B006
) -> None:
    """Profile KERNEL beside its baseline; write data and an HTML page.

    What follows -- goes to ncu as it is, such as: ncu-swizzle profile kernel2 -- --sampling-interval 0

    \b
    Your own kernel (docs/your-kernels.md), described here or in ncu-swizzle.toml:
    ncu-swizzle profile my.cu --kernel fn --grid n//32,n//32 --block 32,8 \\
      --problem n=4096 --arg x=float32[n,n]:random --arg y=float32[n,n]:out \\
      --arg n=int32:n --before -DSWIZZLE=0 --after -DSWIZZLE=1

    \b
    ARG: x=float32[n,n]:FILL    a buffer; FILL is random, random%K, zeros, ones,
                                arange, iota%K, a number, a .npy file, or out
         h=int32[256]:zeros:out an output that is not poisoned with NaN before
         n=int32:n*n  4096  1.5f  true      a number, or an expression of sizes
    """
    from ncu_swizzle import experiment, userkernel
    from ncu_swizzle.commands import output

    formats = output.Formats(json, markdown, csv)
    more = {"launch_count": launch_count, "extra": tuple(context.args)}
    request = options.request(engine, problem, clock_control, cache_control, replay_mode, ncu, timeout, **more)
    compiled = (define, include, nvcc_option, std)
    described = own.asked(entry, grid, block, shared, arg, problem, compiled, before, after)
    known, names = userkernel.chosen(kernel, described, catalog, config)
    with output.progress() as progress:
        result = experiment.profile(known, names[-1], request, baseline, reference, export, force_overwrite, progress)
    output.show(result, formats)
