"""Compare all that is compiled from a changed text: every kernel, and the host's half, of every unit that reads it."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ncu_swizzle.base.cache import sha256_of_texts
from ncu_swizzle.base.errors import BadFile, NcuSwizzleError, ProgramFailed, UsageError
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.certify.change import UnitVerdict, name_of
from ncu_swizzle.certify.checker import certify
from ncu_swizzle.certify.flow import Maps, TensorMap
from ncu_swizzle.certify.includers import CheckoutFiles
from ncu_swizzle.certify.modules import kernels_apart, outside_of_kernels, renamed
from ncu_swizzle.certify.ptx import Module, parse
from ncu_swizzle.certify.verdict import KernelVerdict, ProofObstacle, ProofOutcome
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.lines import is_library
from ncu_swizzle.engines.settings import Done, Progress, silent
from ncu_swizzle.kernels import fills, halves, limits, naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.halves import Halves, TranslationUnit, Tree
from ncu_swizzle.kernels.nvcc_options import Checkout
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.kernels.toolchain import Toolchain

_LOCAL = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|\.L[A-Z]*[0-9]+\b')  # or a string, which may look like a label
_NUMBERLESS = ("-D__LINE__=0", "-Xcompiler=-Wno-builtin-macro-redefined")
SHAPE = "it does not hold for blocks of every shape, and the kernel's is not known"
Shape = tuple[int, int, int]
Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class KnownLaunch:
    """How a kernel is launched, as far as that is known: its name and the shape of blocks; per version, the bytes of
    dynamic shared memory, and its tensor maps.
    """

    entry: str = ""  # empty: any kernel
    block: Shape | None = None
    dynamic: Pair | None = None
    maps: tuple[Maps, Maps] = ((), ())

    @classmethod
    def of(cls, target: Target) -> KnownLaunch:
        """Return the described launch of a kernel."""
        launch = target.launch
        x, y, z = (*launch.block, 1, 1, 1)[:3]
        dynamic, maps = (launch.shared, launch.shared), (_maps(target),) * 2
        return cls(entry=target.kernel.entry, block=(x, y, z), dynamic=dynamic, maps=maps)

    def overridden(self, typed: KnownLaunch) -> KnownLaunch:
        """Return the launch with the block and the dynamic bytes that were typed, if they were."""
        return replace(self, block=typed.block or self.block, dynamic=typed.dynamic or self.dynamic)

    @property
    def differs(self) -> bool:
        """Return whether the versions are launched differently, which even the same code may notice."""
        return self.maps[0] != self.maps[1] or (self.dynamic is not None and self.dynamic[0] != self.dynamic[1])

    def followed_by(self, new: KnownLaunch) -> KnownLaunch:
        """Return the launch of both versions: the old one's as here, the new one's as there."""
        dynamic = (self.dynamic[0], new.dynamic[1]) if self.dynamic and new.dynamic else self.dynamic or new.dynamic
        return replace(self, block=self.block or new.block, dynamic=dynamic, maps=(self.maps[0], new.maps[1]))


def _maps(target: Target) -> Maps:
    """Return the layouts in shared memory that the tensor maps among a kernel's parameters describe."""
    passed = (target.kernel.boxed(argument) for argument in target.family.arguments if argument.passed)
    return tuple(
        (number, TensorMap(size * math.prod(each.box), size * each.box[-1], each.swizzle))
        for number, each in enumerate(passed)
        if each.tensor_map and each.box and (size := fills.itemsize(each))
    )


@dataclass(frozen=True, kw_only=True)
class Checking:
    """How versions are compiled and compared."""

    toolchain: Toolchain = field(default_factory=Toolchain)
    cached: bool = True
    certificate: bool = False  # keep the queries
    progress: Progress = silent


@dataclass(frozen=True, kw_only=True)
class Versions:
    """One unit in two versions: where each is compiled, and how its kernels are launched.

    `entries` are the names of two kernels to compare alone, "" for a file's only one; else all kernels are compared,
    and the host's half.
    """

    before: TranslationUnit
    after: TranslationUnit
    trees: tuple[Tree, Tree]
    launches: tuple[KnownLaunch, ...] = ()
    entries: tuple[str, str] | None = None
    changed: frozenset[Path] = frozenset()  # which the copy must not read as they are in the project

    def verdicts(self, checking: Checking) -> Iterator[UnitVerdict]:
        """Yield the verdict for each architecture; none for a unit that reads no changed file."""
        for arch in self.after.archs:
            if verdict := self._verdict(arch, checking):
                yield verdict

    def _verdict(self, arch: str, checking: Checking) -> UnitVerdict | None:
        verdict = UnitVerdict(
            source=self.after.source,
            arch=arch,
            options=self.after.options,
            origin=self.after.origin,
            named=self.entries,
        )
        try:
            old = self._halves(0, self.before, arch, checking)
            read = frozenset(map(self.trees[0].original, old.read))
            unread = bool(self.changed) and self.changed.isdisjoint(read)
            # What is read is the same then, and so is what is compiled, unless a new file is found before another one.
            if unread and all(self.trees[0].placed(file).exists() for file in self.changed):
                return None
            new = self._halves(1, self.after, arch, checking)
            if unread and (old.ptx, old.host) == (new.ptx, new.host):
                return None
        except (UsageError, ProgramFailed) as error:
            return replace(verdict, obstacle=str(error))
        return self._compared(replace(verdict, read=read), old, new, checking)

    def _halves(self, version: int, unit: TranslationUnit, arch: str, checking: Checking) -> Halves:
        """Return the halves of a version. Raises UsageError if they have another version's text: behind a link."""
        tree = self.trees[version]
        unit = replace(unit, device_only=self.entries is not None)
        compiled = halves.compiled(unit, arch, checking.toolchain, tree, checking.cached)
        real = {os.path.realpath(path) for path in self.changed} if not tree.is_original else ()
        for path in compiled.read:
            if os.path.realpath(path) in real:
                raise UsageError(f"{path.name} is also read by the path {path}, where its text is another one", "")
        return compiled

    def _compared(self, verdict: UnitVerdict, old: Halves, new: Halves, checking: Checking) -> UnitVerdict:
        try:
            before, after = parse(old.ptx), parse(new.ptx)
        except ValueError as error:
            return replace(verdict, obstacle=str(error))
        if self.entries is not None:
            try:
                before, after, kernels = _named(before, after, self.entries, self.before.source, self.after.source)
            except UsageError as error:
                return replace(verdict, obstacle=str(error))
        else:
            before, after = _paired(before, after)
            kernels = before.kernels
            obstacle = kernels_apart(before, after) or outside_of_kernels(before, after, kernels)
            host = "" if obstacle else _host_differs(old.host, new.host)
            numberless = bool(host) and self._same_but_for_lines(verdict, checking)
            host = "" if numberless else host
            verdict = replace(verdict, obstacle=obstacle or host, host_differs=bool(host), numberless=numberless)
        relaunched = {symbol for symbol in kernels for launch in self._known(symbol, kernels) if launch.differs}
        alike = (symbol for symbol in kernels if symbol not in relaunched)
        same = [symbol for symbol in alike if before.code(symbol) == after.code(symbol)]
        differing = [symbol for symbol in kernels if symbol in after.kernels and symbol not in same]
        compared = [kernel for symbol in differing for kernel in self._kernel(before, after, symbol, kernels, checking)]
        if not verdict.obstacle and any(kernel.outcome is ProofOutcome.PROVED for kernel in compared):
            verdict = replace(verdict, obstacle=_not_assembled(new.ptx, checking.toolchain))
        return replace(
            verdict,
            unchanged=tuple(same),
            kernels=tuple(compared),
            digests=(sha256_of_texts(before.ptx), sha256_of_texts(after.ptx)),
        )

    def _same_but_for_lines(self, verdict: UnitVerdict, checking: Checking) -> bool:
        """Return whether the host's halves are the same with 0 for __LINE__: a patch may move lines."""
        own = (file for file in verdict.read if not is_library(str(file)))
        if not any(b"__LINE__" in read_bytes(self.trees[1].placed(file)) for file in own):
            return False
        units = (replace(unit, options=(*unit.options, *_NUMBERLESS)) for unit in (self.before, self.after))
        try:
            old, new = (self._halves(version, unit, verdict.arch, checking) for version, unit in enumerate(units))
        except (UsageError, ProgramFailed):  # names are made of line numbers, for example
            return False
        return not _host_differs(old.host, new.host)

    def _known(self, symbol: str, kernels: Sequence[str]) -> Sequence[KnownLaunch]:
        """Return the launches that are known of a kernel, whatever it is called there."""
        launches = (launch for launch in self.launches if not launch.entry or _is_called(launch.entry, symbol, kernels))
        return list(dict.fromkeys(replace(launch, entry="") for launch in launches))

    def _kernel(
        self, before: Module, after: Module, symbol: str, kernels: Sequence[str], checking: Checking
    ) -> Iterator[KernelVerdict]:
        """Yield the verdict on a kernel for each launch that is known of it, or else for blocks of any shape."""
        checking.progress(name_of(symbol), Done(0))
        for launch in self._known(symbol, kernels) or (KnownLaunch(),):
            verdict = certify(
                before.ptx,
                after.ptx,
                kernel=symbol,
                block=launch.block,
                dynamic=launch.dynamic,
                maps=launch.maps,
                certificate=checking.certificate,
            )
            if verdict.outcome is ProofOutcome.REFUTED and verdict.block is None:
                # Nobody launches it with just any shape: whether it is wrong depends on those that are used.
                verdict = replace(verdict, outcome=ProofOutcome.UNPROVED, obstacle=ProofObstacle(reason=SHAPE))
            elif verdict.outcome is ProofOutcome.REFUTED:
                from ncu_swizzle.certify.replay import replayed  # with what executes launches

                verdict = replayed(verdict, before.ptx, after.ptx, launch.dynamic, checking.toolchain)
            yield verdict
        checking.progress(name_of(symbol), Done(1))


def _paired(before: Module, after: Module) -> tuple[Module, Module]:
    """Return the modules, with one name for the only kernel of each."""
    if len(before.kernels) == len(after.kernels) == 1 and before.kernels != after.kernels:
        return before, parse(renamed(after.ptx, after.kernels[0], before.kernels[0]))
    return before, after


def _named(
    before: Module, after: Module, entries: tuple[str, str], first: Path, second: Path
) -> tuple[Module, Module, list[str]]:
    """Return the modules with one name for two kernels, and that name. Raises UsageError if one is not there."""
    old = names.find_among(before.kernels, entries[0], first.name)
    new = names.find_among(after.kernels, entries[1], second.name)
    if new != old and old in after.parts:  # the old kernel's namesake is not what is compared
        after = parse(renamed(after.ptx, old, f"{old}$other"))
    return before, parse(renamed(after.ptx, new, old)) if new != old else after, [old]


def _is_called(entry: str, symbol: str, kernels: Sequence[str]) -> bool:
    """Return whether a kernel is the one that a description names, or an instance of it."""
    with contextlib.suppress(UsageError):
        return names.find_among(kernels, entry, "") == symbol
    # A template's name alone stands for all of its instances.
    plain = name_of(symbol).partition("<")[0]
    return names.spaceless(entry) in (plain, plain.rpartition("::")[2])


def _not_assembled(ptx: str, toolchain: Toolchain) -> str:
    """Return why a new version cannot be assembled, such as for its shared memory; empty if it can."""
    try:
        toolchain.assemble(ptx.encode(), "the new version", level=0)
    except (BadFile, ProgramFailed) as error:
        return "" if "nresolved extern" in str(error) else str(error)  # which the linker resolves
    return ""


def _with_own_labels(assembly: str) -> str:
    """Return assembly with its local labels numbered in order.

    The compiler numbers functions over all of a unit, those that leave no code, too: a function for the device alone
    moves all numbers. Each label gets one name of its own, so texts that are the same then mean the same.
    """
    numbers: dict[str, str] = {}

    def own(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else numbers.setdefault(found[0], f".L{len(numbers)}")

    return _LOCAL.sub(own, assembly)


def _host_differs(before: str, after: str) -> str:
    """Return what differs between two host halves, in words; empty if nothing does.

    The host's assembler makes the same object of the same text: sections, relocations and symbols are all in it. The
    fat binary, whose bytes stand in the text too, is left out; the code that registers kernels and variables is not.
    """
    before, after = map(_with_own_labels, (before, after))
    if before == after:
        return ""
    function = ""
    for old, new in zip(before.splitlines(), after.splitlines(), strict=False):
        if match := re.match(r"([\w$.]+):$", new):
            function = match[1] if not match[1].startswith(".L") else function
        if old != new:
            break
    where = f", first in {name_of(function)}" if function else ""
    return f"the host's code differs{where}"


# Which units a change reaches: those of described kernels, those that a build or the project names, and every file of
# the checkout that may include what changed, which then is compiled like the unit that is being changed.


@dataclass(frozen=True, kw_only=True)
class CheckedProject:
    """A project's files, and the units that it consists of."""

    folder: Path
    sources: CatalogOptions = CatalogOptions()

    @cached_property
    def checkout(self) -> CheckoutFiles:
        return CheckoutFiles(self.folder, frozenset(source for source, _ in self._named))

    @cached_property
    def described(self) -> tuple[Target, ...]:
        """The kernels that ncu-swizzle.toml describes."""
        try:
            catalog = naming.catalogue(self.sources, self.folder)
        except NcuSwizzleError:  # reported where a description is needed
            return ()
        targets = (target for target in catalog.targets() if not target.family.shipped)
        return tuple(target for target in targets if not (target.compiled or target.python))

    def reached(
        self, changed: Collection[Path], own: Sequence[TranslationUnit]
    ) -> Iterator[TranslationUnit | UnitVerdict]:
        """Yield the units that may read changed files, first the own ones; or the verdict on what cannot be one."""
        yield from own
        leading = {*changed, *self.checkout.including(changed)}
        if self.checkout.computed:  # what a macro includes may be any file
            leading |= self.checkout.computed | self.checkout.including(self.checkout.computed)
        seen = {(unit.source, unit.options) for unit in own}
        for source, unit in self._named:
            if source not in leading and source.name != halves.COMMANDS:  # of which nothing is known
                continue
            if not isinstance(unit, TranslationUnit):
                yield UnitVerdict(source=source, arch="", obstacle=str(unit))
            elif (source, unit.options) not in seen:
                yield unit
            seen.add((source, unit.options if isinstance(unit, TranslationUnit) else ()))
        for source in sorted(leading - {source for source, _ in seen}):
            if halves.is_compiled(source):
                yield halves.like(own[0], source)

    @cached_property
    def _named(self) -> tuple[tuple[Path, TranslationUnit | UsageError], ...]:
        """The sources that compile_commands.json and ncu-swizzle.toml name, with their units."""
        named_units: list[tuple[Path, TranslationUnit | UsageError]] = []
        for file in halves.command_files(self.folder):
            try:
                named_units += halves.of_commands(file, self.sources.trust)
            except BadFile as error:
                named_units.append((file, error))
        return (*named_units, *((limits.plain(target.source), halves.of_target(target)) for target in self.described))

    def verdicts(
        self,
        changed: Collection[Path],
        own: Sequence[TranslationUnit],
        trees: tuple[Tree, Tree],
        launches: Sequence[KnownLaunch],
        checking: Checking,
    ) -> Iterator[UnitVerdict]:
        """Yield the verdicts on all units that read changed files, in two copies of the project."""
        read: set[Path] = set()
        alone: list[UnitVerdict] = []
        for unit in self.reached(changed, own):
            if isinstance(unit, UnitVerdict):
                yield unit
                continue
            described = (KnownLaunch.of(each) for each in self.described if limits.plain(each.source) == unit.source)
            known_launches = tuple(launches) if unit in own else tuple(described) or tuple(launches)
            versions = Versions(
                before=unit, after=unit, trees=trees, launches=known_launches, changed=frozenset(changed)
            )
            for verdict in versions.verdicts(checking):
                read |= verdict.read
                if verdict.digests or not unit.undescribed:
                    yield verdict
                else:
                    alone.append(verdict)
        # What others include need not compile by itself if nothing says that it is compiled.
        yield from (verdict for verdict in alone if verdict.source not in read)


def project_of(source: Path) -> Path:
    """Return the folder of a source's project: its checkout, or else its own folder."""
    return limits.plain(Checkout(limits.plain(source).parent).root)
