"""Compile a file's kernels where nvcc refuses the file: headers are searched for, host functions left out.

What nvcc names is tried first: a header that is elsewhere in the checkout or in a package, an option. Then the file is
preprocessed, with empty files in place of headers that are nowhere, and compiled without its host functions and without
whatever else nvcc refuses. A kernel's text is compiled as it stands or not at all. Templates are instantiated as
launches in the text have them, as --kernel says, or for the types of a dispatch macro. The notes say all of this.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ncu_swizzle.base import cache
from ncu_swizzle.base.cache import sha256_of_texts
from ncu_swizzle.base.errors import BadFile, Hint, NcuSwizzleError, Typed, UnknownKernel, UsageError
from ncu_swizzle.base.files import read_source, slug
from ncu_swizzle.base.paths import kernels as shipped_folder
from ncu_swizzle.base.texts import one_line
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import launch_sites, nvcc_options, toolchain
from ncu_swizzle.kernels.family import COMMON, Family, Kernel
from ncu_swizzle.kernels.launch_sites import Instance, Instances, LaunchSite, is_type, launching
from ncu_swizzle.kernels.nvcc_options import Checkout
from ncu_swizzle.kernels.signature import UNNAMED, Declaration, PreprocessedUnit
from ncu_swizzle.kernels.toolchain import KIND, Refused, Toolchain

MOST_HEADERS = 200  # of one file that are searched for
MOST_ROUNDS, PATIENCE = 16, 4  # attempts to compile, each without what was refused; before all host code goes
MOST_INSTANCES = 64
SHARED = "(with shared memory)"  # behind the name of a kernel whose own text has it
NOTES = "notes"  # the cache's kind of a build's notes
_MISSING = re.compile(r"fatal error: (\S+): No such file or directory|cannot open source file \"([^\"]+)\"")
_ERROR = re.compile(r"^(?P<file>[^\n(]+?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<what>.*)$")
_CONTEXT = re.compile(r"(\d+)(?: of \"?+([^\"\n]+)\"?)?")
_TORCH = ("torch/", "ATen/", "c10/", "THC/")
# What a project's header mostly includes: names that mean the same everywhere.
_STANDARD = "".join(
    f"#include <{name}>\n" for name in ("algorithm", "cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint",
                                       "cstdio", "cstdlib", "cstring", "limits", "type_traits")
)  # fmt: skip
# What a compiler prints if the source needs a newer standard or more features, and the option that enables them.
_NEEDED = (
    (re.compile(r"expt-relaxed-constexpr"), "--expt-relaxed-constexpr"),
    (re.compile(r"(?:expt-)?extended-lambda"), "--extended-lambda"),
)
# Names of types that mean the same everywhere, and headers that are not here may have declared.
_TYPES = {
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long", "uint8": "unsigned char",
    "uint16": "unsigned short", "uint32": "unsigned", "uint64": "unsigned long long", "uchar": "unsigned char",
    "schar": "signed char", "ushort": "unsigned short", "ulong": "unsigned long",
}  # fmt: skip
_UNDEFINED = re.compile(r'(?:identifier|the global scope has no) "(\w+)"')
NEWER, RELOCATABLE = "-std=c++20", "-rdc=true"
_NEWER = re.compile(
    r"\b(concept|requires|consteval|constinit|co_await)\b|<=>|C\+\+20|has no member \"(?:span|bit_cast|countr_zero|"
    r"remove_cvref_t|type_identity|same_as|integral|floating_point|popcount)\""
)


@dataclass(frozen=True)
class Compiled:
    """A cubin; what was done to get it, if nvcc refused the file; and the kernels that it lacks, with reasons.

    `supposed` are templates whose types nothing says.
    """

    code: bytes
    notes: tuple[str, ...] = ()
    lacking: tuple[tuple[str, str], ...] = ()
    supposed: tuple[str, ...] = ()
    way: CompiledAs | None = None

    @property
    def lacks(self) -> int:
        """How many kernels with shared memory it lacks."""
        return sum(SHARED in name for name, _ in self.lacking)


@dataclass(frozen=True, kw_only=True)
class CompiledAs:
    """What is compiled for a kernel's file: itself, maybe with its build's macros, or a file that includes it."""

    family: Family
    kernel: Kernel
    note: str = ""
    functions: frozenset[str] = frozenset()  # the kernels that are meant; all without any


@dataclass(frozen=True, kw_only=True)
class ReadSource:
    """A file preprocessed: the options that found its headers, those headers, and those that are nowhere."""

    unit: PreprocessedUnit
    options: tuple[str, ...]
    found: tuple[Path, ...] = ()  # folders
    missing: tuple[str, ...] = ()

    @cached_property
    def sites(self) -> list[LaunchSite]:
        """The launches in the text."""
        return launch_sites.sites(self.unit)

    @cached_property
    def kernels(self) -> list[Declaration]:
        """The kernels that it defines."""
        return [each for each in self.unit.declarations if each.is_kernel and each.has_body]


def read(family: Family, kernel: Kernel, arch: str, tools: Toolchain) -> ReadSource:
    """Return a kernel's file preprocessed. Raises UsageError if that fails for another reason than a missing header."""
    source = toolchain.source(family, kernel)
    given, include = toolchain.options(family, kernel), toolchain.include_folders(family)
    folders: dict[Path, None] = {}
    missing: list[str] = []
    with scratch() as folder:
        for _ in range(MOST_HEADERS):
            options = (*given, *(f"-I{each}" for each in folders))
            try:
                text = tools.preprocess(toolchain.unit(family, kernel), options, arch, [*include, folder])
            except Refused as refused:
                header = next((one or other for one, other in _MISSING.findall(refused.log)), "")
                if not header or header in missing or ".." in Path(header).parts or Path(header).is_absolute():
                    raise toolchain.failure(family, kernel, str(refused)) from refused
                place = nvcc_options.folder_in_checkout(header, source) or nvcc_options.folder_in_packages(header)
                if place is not None and place not in folders:
                    folders[place] = None
                else:
                    missing.append(header)
                    _stand_in(folder, header)
            else:
                unit = PreprocessedUnit(text, _owned(source))
                return ReadSource(unit=unit, options=options, found=tuple(folders), missing=tuple(missing))
    raise UsageError(f"{source.name} includes too many headers that are not here", "--include FOLDER")


def _stand_in(folder: Path, header: str) -> None:
    """Write a file in place of a header that is nowhere: with the standard's, or what kernels take from PyTorch's."""
    file = folder / header
    file.parent.mkdir(parents=True, exist_ok=True)
    own = shipped_folder() / COMMON / "torch_stand_in.h"
    file.write_text(f'#include "{own}"\n' if header.startswith(_TORCH) else _STANDARD)


class _owned:  # noqa: N801 - a predicate
    """Whether a file is the user's: in the source's checkout, or next to the source."""

    def __init__(self, source: Path) -> None:
        self.roots = (str(Checkout(source.parent).root), str(source.absolute().parent))

    def __call__(self, file: str) -> bool:
        return file.startswith(self.roots) or file.endswith("torch_stand_in.h")


def compiled(family: Family, kernel: Kernel, arch: str, tools: Toolchain, cached: bool = True) -> Compiled:
    """Return a kernel's cubin: of the whole file if nvcc takes it, else of its kernels.

    What lacks kernels is compiled again with the macros that its build defines, then as a part of what includes it.
    Raises UsageError if none of its kernels can be compiled, with all that is missing.
    """
    if family.shipped:
        return Compiled(toolchain.cubin(family, kernel, arch, tools, cached))
    best, failed = None, None
    ways = deque([CompiledAs(family=family, kernel=kernel)])
    while ways and (best is None or best.lacks):
        way = ways.popleft()
        try:
            compiled_way = _compiled(way.family, way.kernel, arch, tools, cached)
        except UsageError as error:
            failed = failed or error
            said = f"{error}"
        else:
            said = " ".join(reason for _, reason in compiled_way.lacking)
            if best is None or compiled_way.lacks < best.lacks:
                best = replace(compiled_way, notes=(*([way.note] if way.note else ()), *compiled_way.notes), way=way)
        if not way.note and (best is None or best.lacks):
            ways.extend(_other_ways(way, arch, said))
    if best is None:
        assert failed is not None
        raise failed
    return best


def _other_ways(way: CompiledAs, arch: str, said: str) -> Iterator[CompiledAs]:
    """Yield what may be compiled for a file that lacks kernels, the best first; `said`: against it."""
    family, kernel = way.family, way.kernel
    file = family.source(kernel)
    for macros in nvcc_options.macros_of_build(file, toolchain.options(family, kernel), arch, said):
        words = ", ".join(f"{option} ({shown(place)})" for option, place in macros.items())
        added = replace(family, options=(*family.options, *macros))
        yield CompiledAs(family=added, kernel=kernel, note=f"{file.name} was compiled with {words}, as its build is")
    declared = names.declared_kernels(read_source(file))
    for other in nvcc_options.including(file):
        whole = replace(kernel, file=other.name)
        yield CompiledAs(
            family=replace(family, folder=other.parent, kernels=(whole,)), kernel=whole,
            note=f"{file.name} was compiled as a part of {shown(other)}, which includes it",
            functions=frozenset(declared),
        )  # fmt: skip


def _compiled(family: Family, kernel: Kernel, arch: str, tools: Toolchain, cached: bool) -> Compiled:
    added: tuple[str, ...] = ()
    source: ReadSource | None = None
    while True:
        found = tuple(f"-I{folder}" for folder in source.found) if source else ()
        whole = replace(family, options=(*family.options, *found, *added))
        try:
            code = toolchain.cubin(whole, kernel, arch, tools, cached)
        except UsageError as error:
            if not isinstance(error.__cause__, Refused):
                raise
            refused = error.__cause__.log
            if option := _option_asked_for(refused, (*toolchain.options(family, kernel), *added)):
                added += (option,)
                continue
            if source is None and _MISSING.search(refused):
                source = read(replace(family, options=(*family.options, *added)), kernel, arch, tools)
                if not source.missing:
                    continue
        else:
            refused = ""
            if not (_lacks(code, kernel.entry) and _declares(family, kernel.entry)):
                return Compiled(code, tuple(_notes_on_whole(family.source(kernel), source, added)))
        whole = replace(family, options=(*family.options, *added))
        source = source or read(whole, kernel, arch, tools)
        try:
            return _cached(_Build(whole, kernel, arch, tools, source, refused, added), cached)
        except _Asked as asked:
            added, source = (*added, asked.option), None


class _Asked(Exception):
    """The kernels need an option that changes what the preprocessor does."""

    def __init__(self, option: str) -> None:
        super().__init__(option)
        self.option = option


def _option_asked_for(log: str, given: Sequence[str]) -> str:
    """Return the option that a compiler's words ask for, if it is not given; "" if there is none."""
    for pattern, option in _NEEDED:
        if pattern.search(log) and option not in given:
            return option
    own = [option for option in given if option.startswith(toolchain.STANDARD) and option not in toolchain.OPTIONS]
    return NEWER if _NEWER.search(log) and not own else ""


def linked(family: Family, kernel: Kernel, arch: str, tools: Toolchain, program: Path) -> None:
    """Write the program that a source with ``main`` is, its headers and options found as for its kernels.

    Raises UsageError.
    """
    given, include = toolchain.options(family, kernel), toolchain.include_folders(family)
    searched = False
    while True:
        try:
            tools.link(family.source(kernel), given, arch, include, program)
            return
        except Refused as refused:
            if option := _option_asked_for(refused.log, given):
                given = (*given, option)
            elif _MISSING.search(refused.log) and not searched:
                given, searched = read(replace(family, options=given), kernel, arch, tools).options, True
            elif "undefined reference" in refused.log:
                raise UsageError(f"{family.source(kernel).name} is not a program of its own", BUILD) from refused
            else:
                raise toolchain.failure(family, kernel, str(refused)) from refused


BUILD = "build it as ever, with nvcc -cudart shared, then: ncu-swizzle capture --dry -o app.launches -- ./app"


def _notes_on_whole(file: Path, source: ReadSource | None, added: Sequence[str]) -> Iterator[str]:
    if source and source.found:
        yield f"{file.name}: headers were found in {', '.join(map(shown, source.found))}"
    if added:
        yield f"{file.name}: {' '.join(added)} was added, which its code needs"


def _lacks(code: bytes, entry: str) -> bool:
    """Return whether a cubin lacks the requested kernel."""
    try:
        cubin = Cubin(code, "kernel.cubin")
        if entry not in ("", ANY):
            names.find(cubin, entry)
    except (UnknownKernel, BadFile):
        return True
    except UsageError:  # several
        return False
    return False


def _declares(family: Family, entry: str) -> bool:
    """Return whether the sources declare the requested kernel, even as a template without an instance."""
    texts = family.included().values()
    return entry in ("", ANY) or any(names.function(entry) in names.declared_kernels(text) for text in texts)


INSTANTIATE = "--kernel 'NAME<float, 32>' instantiates a template"
ANY = "any"  # in place of an entry: whichever kernels there are


def shown(path: Path) -> str:
    """Return a path relative to the current folder if it is inside."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _cached(build: _Build, cached: bool) -> Compiled:
    key = build.key if cached else ""
    if key and (code := cache.load(KIND, key)) and (kept := cache.load(NOTES, key)):
        content = json.loads(kept)
        lacking = tuple(map(tuple, content["lacking"]))
        return Compiled(code, tuple(content["notes"]), lacking, tuple(content["supposed"]))
    fresh = build.run()
    if key:
        cache.save(KIND, key, fresh.code)
        content = {"notes": fresh.notes, "lacking": fresh.lacking, "supposed": fresh.supposed}
        cache.save(NOTES, key, json.dumps(content).encode())  # noqa: TID251
    return fresh


class _Build:
    """One attempt after the other, each without what nvcc refused in the one before."""

    def __init__(
        self,
        family: Family,
        kernel: Kernel,
        arch: str,
        tools: Toolchain,
        source: ReadSource,
        refused: str,
        added: tuple[str, ...],
    ) -> None:
        """`refused` is what nvcc says of the whole file; empty if that compiles, without the kernel."""
        self.family, self.kernel, self.arch, self.tools, self.source = family, kernel, arch, tools, source
        self.refused, self.added = refused, added
        self.file = family.source(kernel)
        self.instances = list(_kept(source, kernel.entry))
        self.emitted: set[str] = set()  # the names of kernels that the compiler emits without being told to
        self.options = [each for each in source.options if not each.startswith(("-D", "-U", "-I", "-i"))]
        self.left_out: dict[Declaration, str] = {}  # and why
        self.supposed: set[str] = set()  # templates whose types nothing says
        self.types: dict[str, str] = {}  # names of _TYPES that are declared in place of what is not here

    @property
    def key(self) -> str:
        """The cache's key: of all that decides what is compiled."""
        digest = sha256_of_texts(
            self.source.unit.text, self.kernel.entry, self.arch, self.tools.version(), *self.options, *self.added
        )
        return f"{slug(self.kernel.name)}-kernels2-{digest[:32]}"

    def run(self) -> Compiled:
        code = self._compiled(self._leave_out_host_functions)
        if more := self._not_instantiated(code):
            self.instances += more
            code = self._compiled(lambda: False)
        if _lacks(code, self.kernel.entry):
            if not self.left_out:  # what was refused are instances
                self.refused = ""
            raise self._failure()
        return Compiled(code, tuple(self._notes()), tuple(self._lacking()), tuple(sorted(self.supposed)))

    def _compiled(self, otherwise: Callable[[], bool]) -> bytes:
        """Return the cubin of what nvcc does not refuse; `otherwise` leaves out more, if that does not help."""
        for number in range(MOST_ROUNDS):
            try:
                return self.tools.compile_preprocessed(self._text(), self.options, self.arch)
            except Refused as refused:
                self.refused = refused.log
                if option := _option_asked_for(refused.log, (*self.options, *self.added)):
                    raise _Asked(option) from refused
                if self._other_target(refused.log) or self._more_types(refused.log):
                    continue
                fewer = self._without_refused(refused.log)
                if number == (0 if self.source.missing else PATIENCE) or not fewer:
                    fewer = otherwise() or fewer
                if not fewer:
                    break
        raise self._failure()

    def _not_instantiated(self, code: bytes) -> list[Instance]:
        """Return instances of the templates that the cubin has none of, unless an instance was asked for."""
        if launch_sites.instance_arguments(self.kernel.entry):
            return []
        with contextlib.suppress(BadFile):
            self.emitted = {names.function(name) for name in names.demangle_all(Cubin(code, "").kernels).values()}
        lacking = (
            each for each in self.source.kernels
            if each.is_template and each not in self.left_out and each.name not in self.emitted
        )  # fmt: skip
        named, launchers = Instances(self.source.unit), [each for each in self.launching if each not in self.left_out]
        made: dict[Instance, None] = {}
        for each in lacking:
            instances = named.of(each, launchers)
            made.update(dict.fromkeys(instances))
            self.supposed |= {each.name for instance in instances if instance.supposed}
        return list(itertools.islice(made, MOST_INSTANCES))

    def _text(self) -> str:
        lines = [instance.text(number) for number, instance in enumerate(self.instances)]
        types = " ".join(f"typedef {meaning} {name};" for name, meaning in self.types.items())
        first = [f'# 1 "{self._instances_file}"', types] if types else []
        return "\n".join([*first, self.source.unit.without(self.left_out), f'# 1 "{self._instances_file}"', *lines, ""])

    @property
    def _instances_file(self) -> str:
        return f"instances of {self.file.name}"

    def _leave_out_host_functions(self) -> bool:
        """Leave out the host's functions: those that launch no template first, as others instantiate kernels."""
        hosts = [each for each in self.source.unit.declarations if each.is_host_function and each not in self.left_out]
        idle = [each for each in hosts if each not in self.launching]
        self.left_out.update(dict.fromkeys(idle or hosts, ""))
        return bool(hosts)

    @cached_property
    def launching(self) -> set[Declaration]:
        """The host's functions that launch templates, and those that they call."""
        return launching(self.source.unit, lambda each: each.is_host_function)

    def _other_target(self, log: str) -> bool:
        """Compile for the architecture, or link as, a source needs by ptxas's words; return whether that is new."""
        specific = toolchain.needed_arch(log)
        if specific and specific != self.arch and specific.rstrip("af") == self.arch:
            self.arch = specific
            return True
        if "Unresolved extern" in log and RELOCATABLE not in self.options:
            self.options.append(RELOCATABLE)
            return True
        return False

    def _more_types(self, log: str) -> bool:
        """Declare types that a header which is not here would have, by their usual names; return whether any is new."""
        undefined = _UNDEFINED.findall(log) if self.source.missing else []
        more = {name: _TYPES[name] for name in undefined if name in _TYPES and name not in self.types}
        self.types |= more
        return bool(more)

    def _without_refused(self, log: str) -> bool:
        """Leave out the declarations and instances that errors are in; return whether there are any."""
        refused: dict[Declaration, str] = {}
        instances: set[int] = set()
        for what, places in _errors(log):
            own = [line - 1 for file, line in places if file == self._instances_file]
            if own:  # not the template is wrong, its arguments are
                instances.update(own)
                continue
            for file, line in places:
                covering = [each for each in self.source.unit.covering(file, line) if each not in self.left_out]
                if covering:
                    refused.update({each: what for each in covering if each not in refused})
                    break
        for symbol in re.findall(r"Entry function '(\w+)' uses too much", log):
            name = names.function(names.demangle(symbol))
            refused.update({each: "too much shared memory" for each in self.source.kernels if each.name == name})
        self.left_out.update(refused)
        kept = [
            each
            for number, each in enumerate(self.instances)
            if number not in instances and each.declaration not in self.left_out
        ]
        fewer = len(kept) < len(self.instances)
        self.instances = kept
        return bool(refused) or fewer

    def _lacking(self) -> Iterator[tuple[str, str]]:
        for each in self.source.kernels:
            if each in self.left_out:
                yield self._named(each), self.left_out[each] or "left out"
            elif (
                each.is_template
                and self._is_own(each)
                and each.name not in self.emitted
                and not any(one.declaration == each for one in self.instances)
            ):
                example = ", ".join("float" if is_type(one) else "32" for one in each.template_parameters)
                yield self._named(each), f"a template that nothing instantiates: --kernel '{each.name}<{example}>'"

    def _named(self, kernel: Declaration) -> str:
        """Return a kernel's name, and whether its own text has shared memory: others matter less."""
        text = self.source.unit.text[kernel.start : kernel.end]
        return f"{kernel.name} {SHARED}" if "__attribute__((shared))" in text else kernel.name

    def _is_own(self, declaration: Declaration) -> bool:
        return self.source.unit.place(self.source.unit.first_word(declaration))[0] == str(self.file)

    def _notes(self) -> Iterator[str]:
        file = self.file.name
        yield from _notes_on_whole(self.file, self.source, self.added)
        if self.left_out:
            what = "its kernels were compiled, without the host code that nvcc refuses"
            yield f"{file} does not compile as a whole: {what}{self._empty()}"
        elif self.source.missing:
            yield f"{file} was compiled{self._empty().removeprefix(', and')}"
        for supposed, what in ((False, "instantiated"), (True, "instantiated for a type that nothing says")):
            if made := [each.name for each in self.instances if each.arguments and each.supposed == supposed]:
                yield f"{file}: {what}: {'; '.join(made)}"
        for name, reason in self._lacking():
            yield one_line(f"{file}: {name} was not compiled: {reason}")

    def _empty(self) -> str:
        if not self.source.missing:
            return ""
        torch = any(header.startswith(_TORCH) for header in self.source.missing)
        listed = ", ".join(self.source.missing)
        types = f" ({', '.join(self.types)} declared)" if self.types else ""
        return f", and with {'stand-ins' if torch else 'empty files'}{types} for headers that are not here: {listed}"

    def _failure(self) -> NcuSwizzleError:
        """Return the error for a file whose kernels cannot be compiled: all that is missing, where it can be had."""
        lacking = ((name, reason) for name, reason in self._lacking() if reason not in self.refused)  # said already
        lines = list(dict.fromkeys(f"{name}: {reason}" for name, reason in lacking))
        remedies: Iterable[str] = ()
        if missing := self.source.missing:
            lines.append(f"headers that are not here: {', '.join(missing)}")
            remedies = dict.fromkeys(filter(None, (nvcc_options.remedy(each, self.file) for each in missing)))
        hint = "; ".join(remedies) or (f"--include FOLDER, the folder of {missing[0]}" if missing else "")
        if not self.refused:
            return UsageError("\n".join([f"{self.file.name} compiles to no kernel:", *lines]), hint or INSTANTIATE)
        refused = toolchain.failure(self.family, self.kernel, toolchain.reason(self.refused))
        if macro := re.search(r'identifier "([A-Z][A-Z0-9_]*)" is undefined', self.refused):
            hint = Hint(hint, "; " if hint else "", Typed(f"-D {macro[1]}=VALUE"), ", as its build defines it")
        return UsageError("\n".join([str(refused), *lines]), hint or refused.hint)


def _errors(log: str) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yield each error of a compiler's output, and the places that it names: its own, then where instantiated."""
    current: tuple[str, list[tuple[str, int]]] | None = None
    for line in log.splitlines():
        if match := _ERROR.match(line):
            if current:
                yield current
            current = match["what"], [(match["file"], int(match["line"]))]
        elif current and (match := _CONTEXT.fullmatch(line.rpartition("at line ")[2])):
            current[1].append((match[2] or current[1][0][0], int(match[1])))
    if current:
        yield current


def _kept(source: ReadSource, entry: str) -> Iterator[Instance]:
    """Yield the kernels that the compiler might drop: those of unnamed namespaces, and the instance of --kernel."""
    wanted, arguments = names.function(entry), tuple(launch_sites.instance_arguments(entry))
    for each in source.kernels:
        if each.is_template:
            if each.name == wanted and arguments:
                yield Instance(each, arguments)
        elif UNNAMED in each.scope or re.search(r"\bstatic\b", each.head):
            yield Instance(each)
