"""The host code of a CuTe DSL function, executed without a driver: which kernels it launches, with which parameters.

The DSL compiles a ``@cute.jit`` function to host code that computes grid, shared memory and tensor maps, and launches
through the CUDA runtime of a shared library. Here the functions of that library do nothing but note the launch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elftools.elf.sections import SymbolTableSection

from ncu_swizzle.cubin.elf import Cubin, open_elf
from ncu_swizzle.emulate.tensor_map import Tiled
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.smem import access

ADDRESS = ctypes.c_uint64
MOST_ARGUMENTS = 12  # of a function of the runtime; what it was not passed is not looked at
HANDLE = 1 << 20  # of the first kernel; the library has the one before
MOST_SHARED = 97  # cudaDevAttrMaxSharedMemoryPerBlockOptin
CLUSTER = 4  # cudaLaunchAttributeClusterDimension
ATTRIBUTE_BYTES = 72


class _Configuration(ctypes.Structure):
    """cudaLaunchConfig_t."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_size_t),
        ("stream", ADDRESS),
        ("attributes", ADDRESS),
        ("number", ctypes.c_uint32),
    )


@dataclass(frozen=True, kw_only=True)
class HostLaunch:
    """A launch that host code made: the kernel's symbol, its geometry, and the bytes of its parameters."""

    entry: str
    launch: LaunchShape
    parameters: tuple[bytes, ...]


@dataclass(kw_only=True)
class HostCode:
    """The host code of one function, and what it launched when it was executed."""

    arch: str
    launches: list[HostLaunch] = field(default_factory=list)
    _cubin: Cubin | None = None
    _names: list[str] = field(default_factory=list)
    _functions: list[Any] = field(default_factory=list)  # called by machine code for as long as it lives

    def engine(self, usual: Any) -> Any:
        """Return MLIR's execution engine, whose code calls this object instead of the CUDA runtime."""

        class HostEngine(usual):  # type: ignore[misc] # it is the DSL's
            def __init__(engine, module: Any, opt_level: int = 2, shared_libs: Sequence[str] = ()) -> None:  # noqa: N805
                super().__init__(module, opt_level=opt_level, shared_libs=[])
                for name in (name for library in shared_libs for name in _exported(Path(library))):
                    engine.raw_register_runtime(name, ctypes.cast(self._function(name), ctypes.c_void_p))

        return HostEngine

    def execute(self, compiled: Any, arguments: Mapping[str, Any], cubin: Cubin) -> None:
        """Execute the host code; its launches are those of the cubin's kernels. Constants are compiled into it."""
        self._cubin = cubin
        vars(compiled)["num_devices"] = 1  # it asks the driver how many there are, unless it knows
        compiled(*(arguments[name] for name in compiled.execution_args.signature.parameters))

    def _function(self, name: str) -> Any:
        known: dict[str, Callable[..., int]] = {
            "_cudaLibraryLoadData": self._loaded,
            "_cudaLibraryGetKernel": self._kernel,
            "_cudaDeviceGetAttribute": self._attribute,
            "_cudaLaunchKernelEx": self._launched,
            "_cuTensorMapEncodeTiled": _encoded,
        }
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ADDRESS] * MOST_ARGUMENTS)
        self._functions.append(kind(known.get(name, _nothing)))
        return self._functions[-1]

    def _loaded(self, library: int, *_: int) -> int:
        ADDRESS.from_address(library).value = HANDLE - 1
        return 0

    def _kernel(self, kernel: int, library: int, name: int, *_: int) -> int:  # noqa: ARG002 - cudaLibraryGetKernel
        self._names.append(ctypes.string_at(name).decode())
        ADDRESS.from_address(kernel).value = HANDLE + len(self._names) - 1
        return 0

    def _attribute(self, value: int, attribute: int, *_: int) -> int:
        if attribute & 0xFFFFFFFF == MOST_SHARED:
            ctypes.c_int32.from_address(value).value = access.block_bytes(self.arch)
        return 0

    def _launched(self, configuration: int, kernel: int, parameters: int, *_: int) -> int:
        assert self._cubin is not None
        entry = self._names[kernel - HANDLE]
        given = _Configuration.from_address(configuration)
        slots = self._cubin.attributes(entry).parameters
        passed = (ADDRESS * len(slots)).from_address(parameters) if slots else ()
        contents = tuple(ctypes.string_at(at, slot.size) for at, slot in zip(passed, slots, strict=True))
        self.launches.append(
            HostLaunch(
                entry=entry,
                launch=LaunchShape(
                    grid=tuple(given.grid), block=tuple(given.block), shared=given.shared, cluster=_cluster(given)
                ),
                parameters=contents,
            )
        )
        return 0


def _cluster(given: _Configuration) -> tuple[int, ...]:
    """Return the cluster among a launch's attributes; one block if there is none."""
    for number in range(given.number):
        at = given.attributes + number * ATTRIBUTE_BYTES
        if ctypes.c_uint32.from_address(at).value == CLUSTER:
            return tuple((ctypes.c_uint32 * 3).from_address(at + 8))
    return (1, 1, 1)


def _encoded(
    made: int, data_type: int, rank: int, address: int, sizes: int, strides: int, box: int, *rest: int
) -> int:  # fmt: skip
    """Encode a tensor map as the driver does; one whose elements have strides is left out, as none of the DSL's has."""
    axes = rank & 0xFFFFFFFF
    _, interleave, swizzle, promotion, fill = (value & 0xFFFFFFFF for value in rest[:5])
    tile = Tiled(
        address,
        data_type & 0xFFFFFFFF,
        sizes=tuple((ADDRESS * axes).from_address(sizes)),
        strides=tuple((ADDRESS * (axes - 1)).from_address(strides)) if axes > 1 else (),
        box=tuple((ctypes.c_uint32 * axes).from_address(box)),
        swizzle=swizzle,
        interleave=interleave,
        promotion=promotion,
        fill=fill,
    )
    content = tile.encoded()
    ctypes.memmove(made, content, len(content))
    return 0


def _nothing(*_: int) -> int:
    return 0


def _exported(library: Path) -> list[str]:
    """Return the names of the functions that a shared library offers."""
    symbols = open_elf(library.read_bytes()).get_section_by_name(".dynsym")
    assert isinstance(symbols, SymbolTableSection)
    return [
        symbol.name
        for symbol in symbols.iter_symbols()
        if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF"
    ]
