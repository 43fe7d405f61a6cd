"""A launches file: its content, as plain data, and how it is written and read.

It is a zip with manifest.json, cubins/SHA256.cubin and memory/SHA256.bin, written whole or not at all. Nothing in it is
extracted. Its entries are those that the manifest lists, each of the stated size, and each is read into memory
when needed, with limits. The digests detect damage, not deliberate forgery.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

from ncu_swizzle.base import cache, validate
from ncu_swizzle.base.errors import BadFile, DamagedFile, NotWritable, UsageError
from ncu_swizzle.base.files import brief, note_finished, opened, replacing
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.base.validate import Count, Within
from ncu_swizzle.cubin.names import KernelFilter, demangle_all, function
from ncu_swizzle.reports.model import MachineInfo

# From a manifest's JSON to a Manifest, and values that no capture writes.

MOST_LAUNCHES = 100_000
MOST_BUFFERS = 4096  # of a launch, and as many variables
MOST_PARAMETER_BYTES = 1 << 16
LONGEST_NAME = 1 << 16

_SHA256 = re.compile(r"[0-9a-f]{64}")
_HEX = re.compile(r"([0-9a-f]{2})+")


def checked_manifest(content: Mapping[str, Any]) -> Manifest:
    """Return the manifest; raise what a wrong shape raises. Types and values are checked afterwards."""
    if len(content["launches"]) > MOST_LAUNCHES:
        raise ValueError(f"it has more than {MOST_LAUNCHES:,} launches")
    return validate.from_plain(Manifest, content)


def implausible(manifest: Manifest, most_cubin: int, most_image: int) -> str:
    """Return the first value that no capture writes; empty if there is none."""
    if manifest.origin not in (GPU, DRY):
        return f"its origin is {manifest.origin!r}"
    for kind, sizes, most in (("cubin", manifest.cubins, most_cubin), ("memory", manifest.memory, most_image)):
        for sha256, size in sizes.items():
            if not _SHA256.fullmatch(sha256) or not 0 < size <= most:
                return f"{kind} {sha256[:80]!r} of {size:,} bytes"
    cubins, sizes = manifest.cubins.keys(), manifest.memory
    oddities = ((launch.index, implausible_launch(launch, cubins, sizes)) for launch in manifest.launches)
    return next((f"launch {index}: {odd}" for index, odd in oddities if odd), "")


def implausible_launch(launch: CapturedLaunch, cubins: Set[str], memory: Mapping[str, int]) -> str:
    """Return the first value of a launch that no capture writes, given the sizes of memory; empty if there is none."""
    if launch.cubin not in cubins:
        return f"its cubin {launch.cubin[:80]!r} is not listed"
    if not 0 < len(launch.kernel) <= LONGEST_NAME or "\0" in launch.kernel:
        return "its kernel has no usable name"
    if len(launch.cluster) not in (0, 3):
        return f"its cluster has {len(launch.cluster)} sizes"
    if max(map(len, (launch.parameters, launch.buffers, launch.variables))) > MOST_BUFFERS:
        return f"it has more than {MOST_BUFFERS:,} parameters, buffers or variables"
    return _odd_parameters(launch.parameters) or _odd_contents(launch, memory)


def _odd_parameters(parameters: Sequence[CapturedParameter]) -> str:
    end = 0
    for parameter in parameters:
        if not _HEX.fullmatch(parameter.value):
            return f"the parameter at {parameter.offset} is not in hex"
        if parameter.offset < end:
            return f"the parameter at {parameter.offset} overlaps another"
        end = parameter.offset + len(parameter.value) // 2
    return f"its parameters have {end:,} bytes" if end > MOST_PARAMETER_BYTES else ""


def _odd_contents(launch: CapturedLaunch, memory: Mapping[str, int]) -> str:
    for part in launch.parts:
        sha256 = part.contents.sha256
        if sha256 and memory.get(sha256) != part.bytes:
            return f"contents {sha256[:80]!r} of {part.bytes:,} bytes are not listed"
    if len(launch.outputs) not in (0, len(launch.parts)):
        return f"it has {len(launch.outputs)} outputs"
    for part, output in zip(launch.parts, launch.outputs, strict=False):
        if output.sha256 and (
            not _SHA256.fullmatch(output.sha256) or memory.get(output.sha256, part.bytes) != part.bytes
        ):
            return f"output {output.sha256[:80]!r} is not of {part.bytes:,} bytes"
    ordered = sorted(launch.buffers, key=lambda buffer: buffer.address)
    for first, second in itertools.pairwise(ordered):
        if first.address + first.bytes > second.address:
            return f"buffers overlap at {second.address:#x}"
    return "a buffer reaches beyond 64 bits" if ordered and ordered[-1].address + ordered[-1].bytes > 1 << 64 else ""


SCHEMA, READ = 2, (1, 2)  # that is written, and those that are read: 1 has no outputs
MANIFEST = "manifest.json"
# Limits on parsing an untrusted manifest: its digest covers only parsed content, so these come first.
MOST_MANIFEST = 16 << 20
MOST_VALUES = 1 << 20  # far more than real manifests have: a value takes 25 bytes or more
DEEPEST = 16  # nested lists and objects; a manifest has 7
MOST_CUBIN = 512 << 20
MOST_IMAGE = 4 << 30  # bytes of one buffer's contents
LARGEST_FILE = 64 << 30
WITHOUT_MEMORY = "captured without --memory"  # why contents are unknown, as `launching.h` writes it
CAPTURE = "give a file that ncu-swizzle capture wrote"
AGAIN = "copy it again from its origin, or capture again"
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)  # an unclosed one too
_BRACKET = re.compile(rb"[][{}]")
EPOCH = (1980, 1, 1, 0, 0, 0)  # of every entry: the manifest has the date

# What a damaged or hostile zip raises besides our own errors.
BROKEN = (
    zipfile.BadZipFile, zlib.error, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError,
    RuntimeError, MemoryError,
)  # fmt: skip


def cubin_entry(sha256: str) -> str:
    return f"cubins/{sha256}.cubin"


def memory_entry(sha256: str) -> str:
    return f"memory/{sha256}.bin"


class LaunchesFile:
    """An open launches file: its manifest, and bytes that are read on demand."""

    def __init__(self, name: str, archive: zipfile.ZipFile, manifest: Manifest | None = None) -> None:
        """Raise BadFile for a newer schema, DamagedFile for anything inconsistent; `manifest` was read before."""
        self.name = name
        self._archive = archive
        with self._reading():
            self.manifest = manifest or self._manifest()

    def cubin(self, sha256: str) -> bytes:
        return self._blob(cubin_entry(sha256), sha256, self.manifest.cubins[sha256])

    def memory(self, sha256: str) -> bytes:
        return self._blob(memory_entry(sha256), sha256, self.manifest.memory[sha256])

    def _blob(self, entry: str, sha256: str, size: int) -> bytes:
        with self._reading():
            content = self._read(entry, size)
            if len(content) != size or cache.sha256(content) != sha256:
                raise ValueError(f"{entry} has other contents than when it was written")
            return content

    def _read(self, entry: str, most: int) -> bytes:
        with self._archive.open(entry) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ValueError(f"{entry} has more than {most:,} bytes")
        return content

    def _manifest(self) -> Manifest:
        entries = self._archive.infolist()
        names = [entry.filename for entry in entries]
        if MANIFEST not in names:
            raise BadFile(f"{self.name} is not a launches file: it has no {MANIFEST}", CAPTURE)
        text = self._read(MANIFEST, MOST_MANIFEST)
        _refuse_many(text)
        content = json.loads(text)
        del text
        if not isinstance(content, dict) or "digest" not in content or "schema" not in content:
            raise ValueError(f"{MANIFEST} has no schema or no digest")
        if content["schema"] not in READ:
            raise BadFile(
                f"{self.name} has schema {content['schema']}; this ncu-swizzle reads schema {SCHEMA}",
                "capture again with this version, or read it with a newer one",
            )
        if content.pop("digest") != cache.sha256_of_json(content):
            raise ValueError(f"{MANIFEST} was changed after it was written: wrong digest")
        del content["schema"]
        manifest = checked_manifest(content)
        if wrong := validate.mismatch(manifest) or implausible(manifest, MOST_CUBIN, MOST_IMAGE):
            raise ValueError(wrong)
        self._check_entries(manifest, names)
        return manifest

    def _check_entries(self, manifest: Manifest, names: list[str]) -> None:
        """Raise ValueError unless the zip has the entries that the manifest lists, once each, and no others."""
        sizes = {entry.filename: entry.file_size for entry in self._archive.infolist()}
        listed = {cubin_entry(sha256): size for sha256, size in manifest.cubins.items()}
        listed |= {memory_entry(sha256): size for sha256, size in manifest.memory.items()}
        if len(names) != len(sizes):
            raise ValueError("an entry comes twice")
        if other := sorted((sizes.keys() - {MANIFEST}) ^ listed.keys()):
            raise ValueError(f"the manifest and the entries differ in {other[0][:120]!r}")
        for entry, size in listed.items():
            if sizes[entry] != size:
                raise ValueError(f"{entry} has {sizes[entry]:,} bytes, in the manifest {size:,}")

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except BROKEN as error:
            raise DamagedFile(f"{self.name} is damaged: {brief(error)}", AGAIN) from error


def _refuse_many(text: bytes) -> None:
    """Raise ValueError for JSON that would take much more memory than its bytes, or a deep stack, to be parsed."""
    plain = _STRING.sub(b"", text)
    if sum(map(plain.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise ValueError(f"{MANIFEST} has more than {MOST_VALUES:,} values")
    depth = 0
    for bracket in _BRACKET.finditer(plain):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > DEEPEST:
            raise ValueError(f"{MANIFEST} is nested more than {DEEPEST} deep")


@contextlib.contextmanager
def open_launches(path: Path, manifest: Manifest | None = None) -> Iterator[LaunchesFile]:
    """Yield the open launches file; raise BadFile or DamagedFile. `manifest` is what another process read of it."""
    with opened(path, CAPTURE, LARGEST_FILE) as file, _archive(path, file) as archive:
        yield LaunchesFile(str(path), archive, manifest)


def _archive(path: Path, file: BinaryIO) -> zipfile.ZipFile:
    start = file.read(4)
    file.seek(0)
    if start != b"PK\x03\x04":
        raise BadFile(f"{path} is not a launches file", CAPTURE)
    try:
        return zipfile.ZipFile(file)
    except BROKEN as error:
        raise DamagedFile(f"{path} is damaged: {brief(error)}", AGAIN) from error


# ---------------------------------------------------------------------------------------------- writing


def write(path: Path, manifest: Manifest, cubins: Mapping[str, Path | bytes], memory: Mapping[str, Path]) -> None:
    """Write a launches file; `cubins` and `memory` have what the manifest names by its SHA-256. Raises NotWritable."""
    content = {"schema": SCHEMA, **dataclasses.asdict(manifest)}
    sealed = {**content, "digest": cache.sha256_of_json(content)}
    text = in_json(sealed, indent=1).encode()
    if len(text) > MOST_MANIFEST:
        raise NotWritable(
            f"{path} is not written: {len(manifest.launches):,} launches take {len(text):,} bytes to describe, and "
            f"{MOST_MANIFEST:,} is the limit",
            "capture fewer: -c, -k",
        )
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        _add(archive, MANIFEST, text)
        for sha256 in manifest.cubins:
            _add(archive, cubin_entry(sha256), cubins[sha256])
        for sha256 in manifest.memory:
            _add(archive, memory_entry(sha256), memory[sha256])
    note_finished(path)


def _add(archive: zipfile.ZipFile, name: str, content: Path | bytes) -> None:
    entry = zipfile.ZipInfo(name, EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    # zipfile has to know before the first byte whether an entry may exceed 2 GiB.
    with archive.open(entry, "w", force_zip64=isinstance(content, Path)) as file:
        if isinstance(content, bytes):
            file.write(content)
            return
        with content.open("rb") as source:
            while piece := source.read(1 << 20):
                file.write(piece)


def summary(manifest: Manifest) -> dict[str, Any]:
    """Return the numbers of a file's contents."""
    return {
        "launches": len(manifest.launches),
        "kernels": len({launch.kernel for launch in manifest.launches}),
        "cubins": len(manifest.cubins),
        "memory": len(manifest.memory),
        "memory_bytes": sum(manifest.memory.values()),
    }


# The contents of a launches file: plain data, and bytes named by their SHA-256.

GPU, DRY = "gpu", "dry"

Size = Annotated[int, Within(1, 1 << 31)]  # of a grid or a block, along one axis
Shared = Annotated[int, Within(0, 1 << 20)]
Offset = Annotated[int, Within(0, 1 << 16)]
Sizes = tuple[Size, Size, Size]


@dataclass(frozen=True)
class Contents:
    """Bytes of device memory before the launch, by their SHA-256; empty if unknown, with the reason."""

    sha256: str = ""
    why: str = ""


@dataclass(frozen=True)
class CapturedBuffer:
    """An allocation that a word of the parameters points into."""

    address: Count
    bytes: Count
    contents: Contents = Contents()


@dataclass(frozen=True)
class CapturedVariable:
    """A variable of the module, in global or constant memory, by the name of its symbol."""

    name: str
    bytes: Count
    contents: Contents = Contents()


@dataclass(frozen=True)
class CapturedParameter:
    """A parameter's offset from the first one, and its bytes in hex."""

    offset: Offset
    value: str

    @property
    def bytes(self) -> bytes:
        return bytes.fromhex(self.value)


@dataclass(frozen=True, kw_only=True)
class CapturedLaunch:
    """One launch: the kernel's mangled name, its cubin's SHA-256, sizes, dynamic shared memory in bytes, parameters."""

    index: Count
    kernel: str
    cubin: str
    grid: Sizes
    block: Sizes
    cluster: tuple[Size, ...]  # empty if the launch names none
    shared: Shared
    parameters: tuple[CapturedParameter, ...]
    buffers: tuple[CapturedBuffer, ...] = ()
    variables: tuple[CapturedVariable, ...] = ()
    outputs: tuple[Contents, ...] = ()  # of the buffers and then the variables, after the launch; empty if not kept
    graph: bool = False  # of a CUDA graph

    @property
    def layout(self) -> tuple[tuple[int, int], ...]:
        """Offset and size of each parameter, in bytes."""
        return tuple((parameter.offset, len(parameter.value) // 2) for parameter in self.parameters)

    @property
    def parts(self) -> tuple[CapturedBuffer | CapturedVariable, ...]:
        """The buffers and the variables."""
        return (*self.buffers, *self.variables)

    @property
    def contents(self) -> tuple[Contents, ...]:
        return tuple(part.contents for part in self.parts)


@dataclass(frozen=True)
class CapturedProgram:
    """The program: its name, and its arguments unless omitted."""

    name: str
    arguments: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything in a launches file except the bytes of cubins and memory, whose sizes it lists by SHA-256."""

    origin: str  # GPU, or DRY: no kernel ran, so none read what another wrote
    generator: str
    when: str  # ISO 8601, UTC
    machine: MachineInfo
    program: CapturedProgram
    commit: str
    launches: tuple[CapturedLaunch, ...]
    cubins: dict[str, int]
    memory: dict[str, int]
    notes: tuple[str, ...] = ()


MOST_NAMED = 8


@dataclass(frozen=True)
class LaunchFilter:
    """Which kernels, as in `KernelFilter`; how many of their launches to skip, and how many to take."""

    kernel_name: str = ""
    skip: int = 0
    count: int | None = None

    def chosen(self, launches: Sequence[CapturedLaunch]) -> list[CapturedLaunch]:
        """Return the chosen launches; raise UsageError if there are none."""
        kernels, names = KernelFilter(self.kernel_name), {launch.kernel for launch in launches}
        if kernels:
            names = {name for name, demangled in demangle_all(names).items() if kernels.passes((name, demangled))}
        named = [launch for launch in launches if launch.kernel in names]
        chosen = named[self.skip :][: self.count]
        if not chosen:
            demangled = demangle_all(launch.kernel for launch in launches)
            shown = list(dict.fromkeys(map(function, demangled.values())))
            more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
            wanted = f"no kernel matches {self.kernel_name}" if not named else f"there are only {len(named)} launches"
            raise UsageError(wanted, f"the file has launches of {', '.join(shown[:MOST_NAMED])}{more}")
        return chosen
