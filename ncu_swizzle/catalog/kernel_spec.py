"""A single kernel as its user describes it, on the command line or in ncu-swizzle.toml, and the family it becomes."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.catalog import includes, launch_limits
from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.catalog.family import BINARIES, PYTHON, Family, Kernel
from ncu_swizzle.catalog.spec import KernelSpec, Variant
from ncu_swizzle.errors import BadFile, LaunchLacking, UsageError
from ncu_swizzle.files import is_file, read_bytes
from ncu_swizzle.texts import encodable

_ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")


def family(spec: KernelSpec) -> Family:
    """Return the kernel as a family whose kernels are its variants. Raises UsageError, which says what is wrong."""
    from ncu_swizzle.catalog import argument_syntax, python_family  # they need NumPy, which most commands do not

    source = Path(os.path.normpath(spec.source.absolute()))
    if not is_file(source):
        raise BadFile(f"{spec.source} does not exist", "name the .cu file that holds the kernel")
    for name in (spec.name, *(variant.name for variant in spec.variants)):
        if not re.match(r"[^\s-][^\x00-\x1f\x7f]*$", name or spec.name):
            raise UsageError(f"{name!r} is not a valid kernel name", "start it with a letter: [kernel.transpose]")
    problem = {parameter.name: parameter.validated(parameter.default) for parameter in spec.problem}
    refuse_bad_architecture(spec.arch)
    if source.suffix == PYTHON:
        return _with_variants(python_family.family(spec, source, problem), spec, spec.entry)
    _refuse_without_launch(spec)
    for what, given in (("grid", spec.grid), ("block", spec.block)):
        launch_limits.refuse_bad_sizes(launch_limits.three(given, what), what, problem)
    if not 0 <= evaluate(spec.shared, problem) <= launch_limits.MOST_SHARED:
        raise UsageError(
            f"shared is {spec.shared}, which is not a number of bytes up to {launch_limits.MOST_SHARED:,}",
            "--shared 49152",
        )
    entry = spec.entry or only_kernel(source, spec.options)
    arguments = argument_syntax.parse_arguments(spec.args, spec.args_folder, problem, spec.tolerance)
    for argument in arguments:
        if spec.args_checkout and argument.file:
            spec.args_checkout.path(argument.file, f"the argument {argument.name}")
    described = spec.as_family(source, spec.name, launch_limits.three(spec.block, "block"), arguments)
    capability = tuple(int(part) for part in spec.compute_capability.split("."))
    return _with_variants(replace(described, compute_capability=capability), spec, entry)


def _with_variants(described: Family, spec: KernelSpec, entry: str) -> Family:
    """Return a family with the kernels that are its variants."""
    variants = spec.variants or (Variant("", (), spec.title, spec.lesson),)
    return replace(described, kernels=tuple(_kernel(spec, entry, variant, variants[0]) for variant in variants))


def refuse_bad_architecture(arch: str) -> None:
    """Raise UsageError for what is not an architecture's name; none is fine."""
    if arch and not _ARCHITECTURE.fullmatch(arch):
        raise UsageError(f"{arch!r} is not an architecture", "--arch sm_90")


def _refuse_without_launch(spec: KernelSpec) -> None:
    if missing := [what for what in ("grid", "block") if not getattr(spec, what)]:
        raise lacking(spec, f"{spec.name} has no {' and no '.join(missing)}")


def lacking(spec: KernelSpec, message: str, named: str = "") -> LaunchLacking:
    """Return the error for a kernel without a launch, for whoever can tell what it takes; `named`: by --kernel."""
    error = LaunchLacking(message, f"{shlex.join(['ncu-swizzle', 'init', str(spec.source)])} describes its launch")
    error.spec, error.kernel = spec, named
    return error


def _kernel(spec: KernelSpec, entry: str, variant: Variant, first: Variant) -> Kernel:
    given = encodable(" ".join(variant.options))
    name = variant.name or spec.name
    return Kernel(
        name=name,
        title=variant.title or (f"With {given}" if given else encodable(spec.source.name)),
        lesson=variant.lesson,
        baseline="" if variant is first else (first.name or spec.name),
        file=spec.source.name,
        function=entry,
        options=variant.options,
    )


def only_kernel(source: Path, given: Sequence[str]) -> str:
    """Return the only kernel that a source, or else its headers, declares; raise UsageError if there are several."""
    names = kernels_in(source, given)
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(
            f"{source.name} declares no __global__ function", "if a macro declares it, name it with --kernel NAME"
        )
    init = shlex.join(["ncu-swizzle", "init", str(source)])
    raise UsageError(several(source, names), f"--kernel {names[0]}, or {init} for all of them")


def several(source: Path, names: Sequence[str]) -> str:
    """Return that a file has several kernels."""
    return f"{source.name} has {len(names)} kernels: {', '.join(names)}"


def kernels_in(source: Path, given: Sequence[str]) -> list[str]:
    """Return the kernels that a source, or else its headers, declares; of a compiled file, their mangled names."""
    if source.suffix in BINARIES:
        return _compiled(source)
    from ncu_swizzle.cubin import symbols

    texts = [text for _, text in includes.texts([source], includes.folders(given))]
    own = symbols.declared_kernels(texts[0])
    return own or list(dict.fromkeys(name for text in texts[1:] for name in symbols.declared_kernels(text)))


def _compiled(source: Path) -> list[str]:
    """Return the mangled names of the kernels in a cubin or PTX file."""
    from ncu_swizzle.cubin.elf import Cubin

    data = read_bytes(source)
    if source.suffix == ".cubin":
        return list(Cubin(data, source.name).kernels)
    return re.findall(r"\.entry\s+([\w$.]+)", data.decode("utf-8", "replace"))
