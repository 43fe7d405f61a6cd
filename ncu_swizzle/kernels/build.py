"""From a description to a family and its cubin; and what to type for a kernel whose launch is not described."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache
from ncu_swizzle.base.cache import sha256, sha256_of_texts
from ncu_swizzle.base.errors import BadFile, Hint, LaunchLacking, NcuSwizzleError, Typed, UsageError, as_word
from ncu_swizzle.base.files import is_file, read_bytes, slug
from ncu_swizzle.base.texts import encodable
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import kernels_only, limits
from ncu_swizzle.kernels.family import BINARIES, PYTHON, Family, Kernel, LaunchTexts, split_name
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.kernels.project import KernelSpec, Variant
from ncu_swizzle.kernels.signature import KernelSignature, signature_of
from ncu_swizzle.kernels.toolchain import ARCH, KIND, PTXAS, Toolchain

# A PTX file's cubin, from the cache or assembled now.


def assembled(ptx: bytes, name: str, toolchain: Toolchain, cached: bool = True, arch: str = "") -> bytes:
    """Return the cubin of a PTX file of this name, assembled unless cached for the same text and assembler.

    It is for `arch`, by default the file's own target. Raises what `Toolchain.assemble` raises.
    """
    entry = _entry(ptx, name, toolchain, arch) if cached else ""
    if entry and (code := cache.load(KIND, entry)):
        return code
    code = toolchain.assemble(ptx, name, arch)
    if entry:
        cache.save(KIND, entry, code)
    return code


def _entry(ptx: bytes, name: str, toolchain: Toolchain, arch: str) -> str:
    """Return the name of the cache's entry; empty if the assembler is not a working one."""
    try:
        version = toolchain.version(PTXAS)
    except NcuSwizzleError:  # assembling says it better
        return ""
    return f"{slug(name)}-ptx-{sha256_of_texts(sha256(ptx), version, arch)[:32]}"


# A single kernel as its user describes it, on the command line or in ncu-swizzle.toml, and the family it becomes.

_ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")


def family_of(spec: KernelSpec) -> Family:
    """Return the kernel as a family whose kernels are its variants. Raises UsageError, which says what is wrong."""
    from ncu_swizzle.kernels.arguments import family as python_family  # which takes NumPy; most commands need none
    from ncu_swizzle.kernels.arguments import parse_arguments

    source = Path(os.path.normpath(spec.source.absolute()))
    if not is_file(source):
        raise BadFile(f"{spec.source} does not exist", "name the .cu file that holds the kernel")
    for name in (spec.name, *(variant.name for variant in spec.variants)):
        if not re.match(r"[^\s-][^\x00-\x1f\x7f]*$", name or spec.name):
            raise UsageError(f"{name!r} is not a valid kernel name", "start it with a letter: [kernel.transpose]")
    problem = {parameter.name: parameter.validated(parameter.default) for parameter in spec.problem}
    launch = spec.launch
    refuse_bad_architecture(launch.arch)
    if source.suffix == PYTHON:
        return _with_variants(python_family(spec, source, problem), spec, launch.entry)
    refuse_without_launch(spec)
    grid, block = limits.three(launch.grid, "grid"), limits.three(launch.block, "block")
    limits.refuse_bad_sizes(grid, "grid", problem)
    limits.refuse_bad_sizes(block, "block", problem)
    if not 0 <= evaluate(launch.shared or "0", problem) <= limits.MOST_SHARED:
        raise UsageError(
            f"shared is {launch.shared}, which is not a number of bytes up to {limits.MOST_SHARED:,}",
            Typed("--shared 49152"),
        )
    entry = launch.entry or only_kernel(source, spec.options)
    arguments = parse_arguments(launch.args, spec.args_folder, problem, spec.tolerance)
    for argument in arguments:
        if spec.args_checkout and argument.file:
            spec.args_checkout.path(argument.file, f"the argument {argument.name}")
    texts = LaunchTexts(grid=grid, block=block, shared=launch.shared or "0")
    described = spec.as_family(source, spec.name, texts, arguments)
    capability = tuple(int(part) for part in spec.compute_capability.split("."))
    return _with_variants(replace(described, compute_capability=capability), spec, entry)


def _with_variants(described: Family, spec: KernelSpec, entry: str) -> Family:
    """Return a family with the kernels that are its variants."""
    variants = spec.variants or (Variant(name="", options=(), title=spec.title, lesson=spec.lesson),)
    return replace(described, kernels=tuple(_kernel(spec, entry, variant, variants[0]) for variant in variants))


def refuse_bad_architecture(arch: str) -> None:
    """Raise UsageError for what is not an architecture's name; none is fine."""
    if arch and not _ARCHITECTURE.fullmatch(arch):
        raise UsageError(f"{arch!r} is not an architecture", Typed("--arch sm_90"))


def refuse_without_launch(spec: KernelSpec) -> None:
    """Raise LaunchLacking if a kernel's grid or block are not said, or its entry is to be completed."""
    refuse_unfinished(spec)
    if missing := [what for what in ("grid", "block") if not getattr(spec.launch, what)]:
        raise lacking(spec, f"{spec.name} has no {' and no '.join(missing)}")


def refuse_unfinished(spec: KernelSpec) -> None:
    """Raise LaunchLacking if something of an entry is still to be said."""
    if to_do := spec.to_do:
        raise LaunchLacking(f"{spec.name} has TODO in {', '.join(to_do)}", f"replace each TODO in {spec.origin}")


def lacking(spec: KernelSpec, message: str) -> LaunchLacking:
    """Return the error for a kernel without a launch; before it is shown, the kernel is compiled, see `completed`."""
    init = shlex.join(["ncu-swizzle", "init", as_word(str(spec.source))])
    error = LaunchLacking(message, Hint(Typed(init)))
    error.spec = spec
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
            f"{source.name} declares no __global__ function",
            Hint("if a macro declares it, name it with ", Typed("--kernel NAME")),
        )
    init = shlex.join(["ncu-swizzle", "init", as_word(str(source))])
    raise UsageError(several(source, names), Hint(Typed(f"--kernel {names[0]}"), f", or {init} for all of them"))


def describing(*files: Path | str) -> str:
    """Return what describes the kernels of files: a command that writes ncu-swizzle.toml, or options for Python."""
    sources = [str(file) for file in files if split_name(str(file))[0].suffix != PYTHON]
    if sources:
        return shlex.join(["ncu-swizzle", "init", *map(as_word, sources)])
    first, entry = split_name(str(files[0]))
    lint = f"name one, with its launch: ncu-swizzle lint {first}::{entry or 'FUNCTION'} "
    return Hint(lint, Typed("--grid 128 --arg …"))


def several(source: Path, names: Sequence[str]) -> str:
    """Return that a file has several kernels."""
    return f"{source.name} has {len(names)} kernels: {', '.join(names)}"


def kernels_in(source: Path, given: Sequence[str]) -> list[str]:
    """Return the kernels that a source, or else its headers, declares; of a compiled file, their mangled names."""
    if source.suffix in BINARIES:
        return _compiled(source)
    texts = [text for _, text in limits.texts([source], limits.folders(given))]
    own = names.declared_kernels(texts[0])
    return own or list(dict.fromkeys(name for text in texts[1:] for name in names.declared_kernels(text)))


def _compiled(source: Path) -> list[str]:
    """Return the mangled names of the kernels in a cubin or PTX file."""
    data = read_bytes(source)
    if source.suffix == ".cubin":
        return list(Cubin(data, source.name).kernels)
    return re.findall(r"\.entry\s+([\w$.]+)", data.decode("utf-8", "replace"))


# The cubin of a file that is already compiled, and of a kernel as its user describes it.


def code_in(path: Path, toolchain: Toolchain, cached: bool = True, arch: str = "") -> bytes:
    """Return the cubin in a file, PTX assembled unless cached, for its own target or `arch`.

    Raises BadFile if it is neither, and UsageError for a cubin of another architecture.
    """
    content = read_bytes(path)
    if content.startswith(b"\x7fELF"):
        has = f"sm_{Cubin(content, path.name).sm}" if arch else ""
        if has != arch.rstrip("af"):
            raise UsageError(f"{path.name} is compiled for {has}, not for {arch}", "leave out --arch")
        return content
    if path.suffix == ".ptx" or b".version" in content[:4096]:
        return assembled(content, path.name, toolchain, cached, arch)
    raise BadFile(f"{path} is neither a cubin nor PTX", "create one with nvcc --cubin -arch=sm_90 -lineinfo FILE.cu")


def cubin_of(spec: KernelSpec, toolchain: Toolchain) -> Cubin:
    """Return the cubin of a described kernel, whatever its launch. Raises what compiling it raises."""
    if spec.source.suffix in BINARIES:
        return Cubin(code_in(spec.source, toolchain, arch=spec.launch.arch), spec.source.name)
    family = family_without_launch(spec)
    code = kernels_only.compiled(family, family.kernels[-1], family.arch or ARCH, toolchain, cached=False).code
    return Cubin(code, spec.source.name)


def family_without_launch(spec: KernelSpec) -> Family:
    """Return the family of a described kernel, to be compiled, whatever its launch. Raises what `family_of` raises."""
    launch = replace(spec.launch, grid="1", block="1", shared="", args=(), entry=spec.launch.entry or kernels_only.ANY)
    return family_of(replace(spec, launch=launch, tolerance={}))


def completed(error: LaunchLacking, toolchain: Toolchain = Toolchain()) -> str:
    """Return what to type for a kernel that lacks a launch. Raises UsageError if it does not even compile."""
    if isinstance(error.spec, KernelSpec) and not error.spec.to_do:
        try:
            cubin = cubin_of(error.spec, toolchain)
            if entry := error.spec.launch.entry:
                names.find(cubin, entry)
        except UsageError as refused:
            raise refused from error
        except NcuSwizzleError:  # no compiler here
            pass
    return error.hint


def in_keywords(options: str) -> str:
    """Return command-line options as keywords of `ncu_swizzle.profile`; anything else unchanged."""
    if not options.startswith("--"):
        return options
    return ", ".join(f"{name}={value!r}" for name, value in keywords(options).items())


def keywords(options: str) -> dict[str, Any]:
    """Return command-line options as plain data: the problem's sizes, and the arguments as one list."""
    words = shlex.split(options)
    values: dict[str, list[str]] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        values.setdefault(name.removeprefix("--"), []).append(value)
    sizes = {name: int(size) for name, _, size in (text.partition("=") for text in values.pop("problem", []))}
    given: dict[str, Any] = {"problem": sizes} if sizes else {}
    return given | {"args" if name == "arg" else name: texts if name == "arg" else texts[0]
                    for name, texts in values.items()}  # fmt: skip


def signed(cubin: Cubin, symbol: str, spec: KernelSpec | None, disassembled: str) -> KernelSignature:
    """Return a compiled kernel's parameters, with their names from its source or its headers."""
    source = ""
    if spec is not None and spec.source.suffix not in BINARIES:
        source = "\n".join(text for _, text in limits.texts([spec.source], limits.folders(spec.options)))
    return signature_of(cubin, symbol, source, lambda: disassembled)
