"""From keywords and entries to what the rooms below take: a request, a catalogue, profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ncu_swizzle.answers import Result
from ncu_swizzle.catalog import collection, kernel_files, user_kernels
from ncu_swizzle.catalog.kernel_options import KernelDescription, PairOptions
from ncu_swizzle.engines import context
from ncu_swizzle.engines.choice import choose_engine
from ncu_swizzle.engines.context import Progress, Request
from ncu_swizzle.errors import UsageError, did_you_mean
from ncu_swizzle.files import is_folder
from ncu_swizzle.jobs.companions import AUTO
from ncu_swizzle.jobs.entries import gather
from ncu_swizzle.ncu.options import Options
from ncu_swizzle.option import names_of, refuse_rest, taken
from ncu_swizzle.profiles import model, run_folder
from ncu_swizzle.profiles.engine import EMULATED, NCU, RECORDED

ENGINES = (AUTO, NCU, RECORDED, EMULATED)

Entry = str | Path | model.Profile | Result | Sequence[model.Profile]
KEYWORDS = (*names_of(PairOptions, Options), *context.KEYWORDS)  # ours
OWN = tuple(names_of(PairOptions))  # the keywords that describe a .cu file, besides its problem


def own_kernel(options: dict[str, Any]) -> PairOptions:
    """Return the keywords that describe a .cu file, taken out of the options."""
    return PairOptions(**taken(PairOptions, options))


Resolve = Callable[[Sequence[str]], tuple[collection.Catalog, list[list[str]]]]


def resolving(
    described: KernelDescription, folders: Sequence[str | Path], config: str, trust: bool, last_only: bool = False
) -> Resolve:
    """Return the function from entries to a catalogue that has them, and each one's kernels or only the last."""

    def resolve(names: Sequence[str]) -> tuple[collection.Catalog, list[list[str]]]:
        catalog, named = user_kernels.with_files(names, described, list(map(Path, folders)), config, trust)
        return catalog, [kernels[-1:] if last_only else kernels for kernels in named]

    return resolve


def gathered(
    entries: Sequence[Entry], request: Request, on_progress: Progress, resolve: Resolve, alone: bool = True
) -> tuple[list[model.Profile], str]:
    """Return the profiles of the entries, and why ncu does not measure here.

    `alone` is whether a single run means everything in it, and before and after both.
    """
    texts = [str(entry) for entry in entries if isinstance(entry, str | Path)]
    engine = choose_engine(request) if texts else None
    kernels = [text for text in texts if kernel_files.is_kernel_file(text) or not Path(text).exists()]
    catalog, named = resolve(kernels) if kernels else (collection.shipped(), [])
    names = dict(zip(kernels, named, strict=True))
    alone = alone and len(entries) == 1
    profiles: list[model.Profile] = []
    for entry in entries:
        if isinstance(entry, model.Profile):
            profiles.append(entry)
        elif isinstance(entry, Result):
            profiles += entry.profiles if alone else [entry.profile]
        elif not isinstance(entry, str | Path):
            profiles += entry
        elif alone and is_folder(Path(entry)):
            profiles += run_folder.load(Path(entry)).profiles
        elif engine:
            profiles += gather(catalog, names.get(str(entry), [str(entry)]), request, engine, on_progress)
    return profiles, engine.reason if engine else ""


def requested(
    engine: str,
    problem: Mapping[str, int] | None,
    program: str | Path | None,
    timeout: float,
    options: dict[str, Any],
    more: Iterable[str] = (),
) -> Request:
    """Return the request; raise UsageError for an unknown engine or option.

    `more` are other valid options, for the hint.
    """
    if engine not in ENGINES:
        meant = did_you_mean(engine, ENGINES)
        raise UsageError(f"unknown engine {engine!r}{meant}", f"one of {', '.join(ENGINES)}")
    of_request = taken(Request, options, context.KEYWORDS)
    given = taken(Options, options)
    refuse_rest(options, [*names_of(Options), *context.KEYWORDS, *more])
    ncu_path = Path(program) if program is not None else None
    return Request(engine, dict(problem or {}), Options(**given), ncu_path, timeout, **of_request)
