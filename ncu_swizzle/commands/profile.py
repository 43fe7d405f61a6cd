"""``ncu-swizzle profile``: what a kernel, or every kernel of a program, does to shared memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ncu_swizzle.commands import options
from ncu_swizzle.commands import own
from ncu_swizzle.commands import programs
from ncu_swizzle.commands.options import CacheControl, ClockControl, Engine, ReplayMode
from ncu_swizzle.errors import UsageError

AUTO = "auto"


def profile(
    context: typer.Context,
    kernel: Annotated[
        str,
        typer.Argument(
            metavar="KERNEL", help="A kernel of the catalogue, or your own .cu file; none: the program after --."
        ),
    ] = "",
    baseline: Annotated[
        str, typer.Option(metavar="NAME|FILE|RUN|none", help="What to compare with; auto: what the catalogue names.")
    ] = AUTO,
    reference: Annotated[
        str, typer.Option(metavar="NAME|FILE|none", help="A third column; auto: the library's kernel, if it is there.")
    ] = AUTO,
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
    launch_count: Annotated[
        int | None, typer.Option("--launch-count", "-c", min=1, help="As ncu's; of a program, 32 by default.")
    ] = None,
    kernel_name: programs.KernelNameOption = "",
    kernel_name_base: programs.NameBaseOption = None,
    kernel_id: programs.KernelIdOption = "",
    launch_skip: programs.LaunchSkipOption = 0,
    filter_mode: programs.FilterModeOption = None,
    nvtx: programs.NvtxOption = False,
    nvtx_include: programs.NvtxIncludeOption = [],  # noqa: B006
    nvtx_exclude: programs.NvtxExcludeOption = [],  # noqa: B006
    target_processes: programs.TargetOption = None,
    target_processes_filter: programs.TargetFilterOption = "",
    profile_from_start: programs.StartOption = None,
    graph_profiling: programs.GraphOption = None,
    import_source: programs.ImportOption = None,
    app_replay_match: programs.MatchOption = None,
    pair: programs.PairOption = [],  # noqa: B006
    ncu_args: programs.NcuArgsOption = [],  # noqa: B006
    ncu: options.NcuOption = None,
    nvcc: options.NvccOption = None,
    exhaustive: options.ExhaustiveOption = False,
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
    """Profile KERNEL beside its baseline, or a program; write data and an HTML page.

    \b
    ncu-swizzle profile kernel2
    ncu-swizzle profile kernel2 -- --sampling-interval 0    what follows goes to ncu
    ncu-swizzle profile -- ./app --size 4096                a program's kernels
    ncu-swizzle profile -k regex:softmax -c 3 -- python train.py
    ncu-swizzle profile --baseline swizzle-out/app -- ./app2

    The options from --kernel-name to --pair are about programs. Kernels of two programs are paired by name, grid,
    block and order.

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
    from ncu_swizzle.ncu import gpu

    if engine is Engine.auto:
        gpu.ask_ahead()
    from ncu_swizzle.catalog import user_kernels
    from ncu_swizzle.commands import output
    from ncu_swizzle.jobs import profile_kernel
    from ncu_swizzle.ncu.options import Launches

    rest = programs.after_dashes(context)
    if not kernel and not rest:
        raise UsageError(
            "there is nothing to profile: neither a kernel nor a program after --",
            "ncu-swizzle profile kernel2, ncu-swizzle profile -- ./app; ncu-swizzle list shows the kernels",
        )
    formats = output.Formats(json, markdown, csv)
    filters = Launches.of(
        kernel_name=kernel_name,
        kernel_name_base=kernel_name_base,
        kernel_id=kernel_id,
        launch_skip=launch_skip,
        filter_mode=filter_mode,
        nvtx=nvtx,
        nvtx_include=nvtx_include,
        nvtx_exclude=nvtx_exclude,
        target_processes=target_processes,
        target_processes_filter=target_processes_filter,
        profile_from_start=profile_from_start,
        graph_profiling=graph_profiling,
        import_source=import_source,
        app_replay_match=app_replay_match,
    )
    extra = programs.words(ncu_args)
    request = partial(
        options.request,
        engine,
        problem,
        clock_control,
        cache_control,
        replay_mode,
        ncu,
        timeout,
        nvcc=nvcc,
        exhaustive=exhaustive,
    )
    described = user_kernels.asked(
        options.sizes(problem), entry, grid, block, shared, arg, define, include, std, nvcc_option, before, after
    )
    with output.progress() as progress:
        if kernel:
            programs.refuse_filters(kernel, filters, pair)
            how = request(launch_count=launch_count or 1, extra=(*extra, *rest))
            known, names = user_kernels.chosen(kernel, described, catalog, config)
            result = profile_kernel.profile(
                known, known.target(names[-1], how.problem), how, baseline, reference, export, force_overwrite, progress
            )
        else:
            from ncu_swizzle.jobs import profile_program as any_program
            from ncu_swizzle.profiles import pairing

            programs.refuse_catalogue(reference=reference != AUTO, problem=bool(problem))
            how = request(launch_count=launch_count or any_program.MOST_LAUNCHES, extra=extra, launches=filters)
            program = any_program.Program(rest, Path.cwd())
            pairs = [pairing.forced_pair(text) for text in pair]
            result = any_program.profile(program, how, baseline, pairs, export, force_overwrite, progress)
    output.show(result, formats)
