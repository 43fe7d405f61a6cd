"""Cubins of files and described kernels, what a launch lacks; arguments checked against the cubin; tensor maps."""

from __future__ import annotations

import ctypes
import math
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ncu_swizzle.base import cache
from ncu_swizzle.base.cache import sha256, sha256_of_texts
from ncu_swizzle.base.errors import BadCatalog, BadFile, EnvironmentLacking, LaunchLacking, NcuSwizzleError, UsageError
from ncu_swizzle.base.files import read_bytes, slug
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.names import demangle
from ncu_swizzle.emulate.tensor_map import TENSOR_MAP_BYTES, Tiled, element_bytes
from ncu_swizzle.kernels import fills, kernels_only, limits, signature
from ncu_swizzle.kernels.arguments import text_of
from ncu_swizzle.kernels.family import BINARIES, BYTES, STRUCT, Argument, Family, Kernel
from ncu_swizzle.kernels.naming import family_of_spec
from ncu_swizzle.kernels.project import TODO, KernelSpec
from ncu_swizzle.kernels.signature import KernelSignature, SignatureParameter, dtype_of, pointee_of, signature_of
from ncu_swizzle.kernels.toolchain import ARCH, KIND, PTXAS, Toolchain

# A PTX file's cubin, from the cache or assembled now.


def assembled(ptx: bytes, name: str, toolchain: Toolchain, cached: bool = True, arch: str = "") -> bytes:
    """Return the cubin of a PTX file of this name, assembled unless cached for the same text and assembler.

    It is for `arch`, by default the file's own target. Raises what `Toolchain.assemble` raises.
    """
    version = toolchain.working_version(PTXAS) if cached else ""
    entry = f"{slug(name)}-ptx-{sha256_of_texts(sha256(ptx), version, arch)[:32]}" if version else ""
    if entry and (code := cache.load(KIND, entry)):
        return code
    code = toolchain.assemble(ptx, name, arch)
    if entry:
        cache.save(KIND, entry, code)
    return code


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
    """Return the family of a kernel that is compiled whatever its launch. Raises what `family_of_spec` raises."""
    launch = replace(spec.launch, grid="1", block="1", shared="", args=(), entry=spec.launch.entry or kernels_only.ANY)
    return family_of_spec(replace(spec, launch=launch, tolerance={}))


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


# Tensor maps, and a check of arguments against the cubin: a kernel that chases a wild pointer measures nothing.
#
# The cubin lists the number and sizes of the parameters. Their types are only in a mangled C++ name; an ``extern "C"``
# function has none.

# Tensor maps: TMA's descriptors of matrices, encoded by the CUDA driver.
#
# CUDA driver API, "Tensor Map Object Management".

ALIGNMENT = 64
DATA_TYPES = {
    "uint8": 0,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
    "uint16": 1,
    "int32": 3,
    "float16": 6,
    "float32": 7,
    "bfloat16": 9,
}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # by width in bytes: the hardware permutes 16-byte chunks within it
L2_PROMOTION_256B = 3
CHUNK = 16  # bytes
MOST_BOX = 256  # elements of one side


def tiled(address: int, dtype: str, shape: tuple[int, ...], box: tuple[int, ...], swizzle: int) -> Tiled:
    """Return the map of a row-major matrix in global memory, or of several, of three dimensions then.

    `box` is (rows, columns) of one matrix, in elements; `swizzle` is in bytes, and a box row may not be wider. Raises
    BadCatalog if there is no such map.
    """
    if dtype not in DATA_TYPES or swizzle not in SWIZZLES or len(box) != 2:
        raise BadCatalog(
            f"there is no tensor map for {dtype} with box {list(box)} and a {swizzle}-byte swizzle",
            f"dtypes: {', '.join(DATA_TYPES)}; swizzle: {', '.join(map(str, SWIZZLES))}; box: [rows, columns]",
        )
    itemsize = element_bytes(DATA_TYPES[dtype])
    *outer, rows, columns = shape
    row, width = columns * itemsize, box[1] * itemsize
    several = bool(outer)
    if row % CHUNK or width % CHUNK or not all(1 <= side <= MOST_BOX for side in box) or 0 < swizzle < width:
        raise _rejected(f"{rows}x{columns} {dtype}, box {list(box)}, swizzle {swizzle}")
    # As the driver takes them: the innermost dimension first, and no stride for it, as it has no gaps.
    return Tiled(
        address,
        DATA_TYPES[dtype],
        (columns, rows, *[math.prod(outer)] * several),
        (row, *[rows * row] * several),
        (box[1], box[0], *[1] * several),
        swizzle=SWIZZLES[swizzle],
        promotion=L2_PROMOTION_256B,
    )


def encode(tile: Tiled) -> bytes:
    """Return the CUtensorMap: 128 opaque bytes, passed to a kernel by value.

    Raises BadCatalog if the driver rejects it, EnvironmentLacking if the driver does not support tensor maps.
    """
    storage = (ctypes.c_byte * (TENSOR_MAP_BYTES + ALIGNMENT))()
    # The driver refuses a map that is not aligned to 64 bytes, and ctypes aligns to less.
    offset = -ctypes.addressof(storage) % ALIGNMENT
    rank = len(tile.sizes)
    status = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(ctypes.addressof(storage) + offset),
        ctypes.c_int(tile.data_type),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(tile.address),
        (ctypes.c_uint64 * rank)(*tile.sizes),
        (ctypes.c_uint64 * (rank - 1))(*tile.strides),
        (ctypes.c_uint32 * rank)(*tile.box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        *map(ctypes.c_int, (tile.interleave, tile.swizzle, tile.promotion, tile.fill)),
    )

    if status:
        raise _rejected(f"{tile} (error {status})")
    return bytes(storage)[offset : offset + TENSOR_MAP_BYTES]


def _rejected(what: str) -> BadCatalog:
    return BadCatalog(
        f"the driver rejects a tensor map of {what}",
        "a box has at most 256x256 elements, its row fits in the swizzle width, and both its row and the matrix's are "
        "multiples of 16 bytes",
    )


def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuTensorMapEncodeTiled  # noqa: B018 - an AttributeError where the driver is too old
    except (OSError, AttributeError) as error:
        raise EnvironmentLacking(
            f"the NVIDIA driver cannot encode tensor maps: {error}", "install a driver for CUDA 12 or newer"
        ) from error
    return driver


NO_PARAMETERS = "leave out --arg: this kernel takes no arguments"


def refuse_mismatch(
    cubin: Cubin, function: str, arguments: Sequence[Argument], sizes: Sequence[int], source: Callable[[], str] = str
) -> None:
    """Raise LaunchLacking if the arguments, of `sizes` bytes each, do not match the parameters of the mangled function.

    `source` returns the text that declares it, for the names of parameters that have no argument.
    """
    parameters = signature_of(cubin, function).parameters
    slot_sizes, types = [slot.size for slot in parameters], [slot.type for slot in parameters]
    fault_of = [
        _fault(argument, size, slot_sizes[number], types[number]) if number < len(slot_sizes) else ""
        for number, (argument, size) in enumerate(zip(arguments, sizes, strict=True))
    ]
    faults = list(filter(None, fault_of))
    if len(slot_sizes) == len(sizes) and not faults:
        return
    counted = f"{len(slot_sizes)} parameters, {len(sizes)} arguments" if len(slot_sizes) != len(sizes) else faults[0]
    raise LaunchLacking(
        f"the arguments do not fit {demangle(function)}: {counted}\n{_table(slot_sizes, types, arguments, sizes)}",
        _proposal(signature_of(cubin, function, source()).parameters, arguments, fault_of),
    )


def _fault(argument: Argument, size: int, slot_size: int, type_: str) -> str:
    """Return what is wrong with an argument for a parameter of this size and type; "" if nothing is."""
    pointee = pointee_of(type_)
    wanted = dtype_of(type_ if pointee is None else pointee)
    if argument.dtype == fills.POINTER and size == slot_size and pointee is not None:
        return ""
    if pointee is not None and argument.value == "0":
        return f"{argument.name} is 0, the parameter {type_} is a pointer: {argument.name}=nullptr"
    if size != slot_size:
        return f"{argument.name} has {size} bytes, the parameter {slot_size}"
    if pointee is not None and not argument.shape:
        return f"{argument.name} is a number, the parameter {type_} is a pointer"
    if pointee is None and argument.shape:  # an integer that holds a pointer, or a structure around one
        return f"{argument.name} is a buffer, the parameter is {type_}" if wanted in ("float64", "bool") else ""
    holds = "holds" if argument.shape else "is"
    return f"{argument.name} {holds} {argument.dtype}, the parameter is {type_}" if _differ(wanted, argument) else ""


def _differ(wanted: str | None, argument: Argument) -> bool:
    """Return whether the types differ: in size, or one is an integer and the other floating point."""
    if wanted is None or argument.dtype in (BYTES, STRUCT):
        return False
    expected, given = fills.numpy_dtype(wanted), fills.numpy_dtype(argument.dtype)
    # Of one size, an integer may be given for another one, signed or not; half for bfloat16 would be other numbers.
    same = expected.itemsize == given.itemsize and (expected == given or _whole(expected) == _whole(given) is True)
    return not same


def _whole(dtype: np.dtype[np.generic]) -> bool:
    return dtype.kind in "iub"


def _table(slot_sizes: Sequence[int], types: Sequence[str], arguments: Sequence[Argument], sizes: Sequence[int]) -> str:
    rows = []
    for number in range(max(len(slot_sizes), len(sizes))):
        parameter = (
            f"{types[number] or 'parameter'}, {slot_sizes[number]} bytes" if number < len(slot_sizes) else "none"
        )
        argument = f"{_written(arguments[number])}, {sizes[number]} bytes" if number < len(sizes) else "none"
        rows.append(f"  {number + 1}. {parameter} <- {argument}")
    return "\n".join(rows)


def _written(argument: Argument) -> str:
    inside = f"[{','.join(argument.shape)}]" if argument.shape else f":{argument.value or argument.fill}"
    return f"{argument.name}={'tensormap:' * argument.tensor_map}{argument.dtype}{inside}"


def _proposal(parameters: Sequence[SignatureParameter], arguments: Sequence[Argument], faults: Sequence[str]) -> str:
    """Return --arg options for a kernel: what was given, with the types of its parameters; of others what is known."""
    if not parameters:
        return NO_PARAMETERS
    texts = []
    for number, (text, _) in enumerate(signature.arguments(parameters)):
        given = arguments[number] if number < len(arguments) else None
        if given and faults[number]:
            given = _corrected(given, parameters[number], text)
        texts.append(text_of(given) if given else text)
    options = shlex.join(part for text in texts for part in ("--arg", text))
    return f"an argument for each parameter: {options}" if any(TODO in text for text in texts) else options


def _corrected(argument: Argument, parameter: SignatureParameter, known: str) -> Argument | None:
    """Return an argument with the type of its parameter; None if more is wrong than that."""
    dtype = re.split(r"[:\[]", known.partition("=")[2])[0]
    if parameter.pointee is not None and argument.value == "0":
        return replace(argument, dtype=fills.POINTER, value="nullptr")
    if dtype == BYTES:
        return replace(argument, value=str(parameter.size)) if argument.dtype == BYTES and argument.value else None
    if (parameter.pointee is not None) != bool(argument.shape) or argument.dtype in (BYTES, STRUCT) or argument.box:
        return None
    if not argument.shape and dtype.startswith(("int", "uint")) and argument.dtype.startswith("float"):
        return None  # 1.5 is not an integer
    return replace(argument, dtype=dtype)


def declaring_text(family: Family, kernel: Kernel) -> str:
    """Return the text of a kernel's source and of what it includes; empty for what is compiled already."""
    return "" if family.source(kernel).suffix in BINARIES else "\n".join(family.included().values())
