"""The other files of a project that include what a patch changes: it must do for their kernels, too."""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed, UsageError
from ncu_swizzle.base.files import brief, read_bytes
from ncu_swizzle.cubin.names import demangle
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.applied import Applied, KeptKernel, Neighbour, changed_code, code_of, neighbour
from ncu_swizzle.fix.claims import About, Claim, ClaimState
from ncu_swizzle.fix.cuda import NOTHING, Node
from ncu_swizzle.fix.edits import with_files, with_headers
from ncu_swizzle.fix.scopes import NAMES
from ncu_swizzle.kernels import git, limits, naming
from ncu_swizzle.kernels.options import CatalogOptions

# Which files of a checkout lead to a file by ``#include``: a patch of it must do for all of them.
#
# How they are compiled is not known: with which ``-I``, as what language, or at all. So nothing here decides like a
# preprocessor. What may be an include is one, also in comments, strings and branches that are not taken; a name that is
# not beside its file means every file of that name; and an include that a macro names may mean any file.

MOST_FILES = 100_000  # of any kind in the checkout
MOST_BYTES = 256 << 20  # of those that are read
LISTING_S = 60.0


def _suffixes(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Compiled as they are, perhaps as CUDA, also if another file includes them.
UNITS = _suffixes(".c .c++ .cc .cl .cp .cpp .cppm .cu .cxx .hip .ixx .m .mm .mpp")
HEADERS = _suffixes(".cuh .def .h .h++ .hh .hpp .hxx .icc .ii .inc .inl .ipp .tcc .tpp .txx")
# Files that show or hold code, such as a README, count if a file that is compiled includes them.
OTHERS = _suffixes("""
    .7z .a .avif .bak .bat .bazel .bib .bin .bmp .bz2 .bzl .cff .cfg .cmake .conf .css .csv .cubin .diff .dll
    .dylib .eps .gif .gz .htm .html .ico .ini .ipynb .jpeg .jpg .js .json .launches .lock .log .md .mk .mp4
    .ncu-rep .ninja .npy .npz .o .onnx .orig .org .patch .pdf .pem .png .pt .pth .py .pyc .pyi .rej .rst
    .safetensors .sass .sh .so .sqlite .svg .swp .tar .tex .tiff .toml .ts .tsv .ttf .txt .webp .whl .woff .woff2
    .xml .xz .yaml .yml .zip .zst
""")
TEMPLATES = (".in", ".j2", ".jinja", ".template", ".tmpl", ".tpl")  # behind the suffix of what is made of them

# A line that goes on; only some compilers read a trigraph, or allow for spaces behind the backslash.
_JOINTS = tuple(re.compile(rf"{joint}\n") for joint in (r"\\", r"\\[ \t\v\f]*", r"(?:\\|\?\?/)[ \t\v\f]*"))
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_DIRECTIVE = re.compile(
    r"""
    (?P<first> ^ (?:[^\n]*\*/)? [ \t\v\f\0]* )? (?:\#|%:|\?\?=) [ \t\v\f\0]*
    (?P<word> include_next|include|import|embed ) (?![A-Za-z0-9_$]) [ \t\v\f\0]*
    (?: "(?P<beside>[^"\n]*)" | <(?P<other>[^>\n]*)> | (?P<macro>[A-Za-z_$\x80-\U0010ffff]|\\[uU]) )
    """,
    re.MULTILINE | re.VERBOSE,
)


@dataclass(frozen=True)
class Included:
    """What a file may include: names, with whether they are in quotes, and the first line that leaves it to a macro."""

    names: frozenset[tuple[str, bool]] = frozenset()
    computed: str = ""


@dataclass(frozen=True)
class Includers:
    """What must be judged besides a source, or why that is not known; `reached` are also the headers on the way."""

    files: tuple[Path, ...] = ()
    unknown: str = ""
    reached: tuple[Path, ...] = ()


@dataclass(eq=False)
class CheckoutFiles:
    """The files of a project, read once."""

    project: Path
    unknown: str = ""  # why not all of them are known
    _left: int = field(default_factory=lambda: MOST_BYTES, init=False)

    def including(self, changed: Collection[Path], source: Path) -> Includers:
        """Return the files that are compiled, perhaps, with one of the changed ones, without the source itself."""
        above = self._above
        if self.unknown:
            return Includers(unknown=self.unknown)
        changed = {*changed, *map(self._real, changed)}
        reached = _reached(changed, above)
        # A file that another one includes is judged as part of that one. Those that only include each other are, too.
        own = reached - {source}
        tops = {file for file in own if _kind(file) in UNITS or not (above.get(file, set()) - {file}) & reached}
        tops -= {file for file in changed if _kind(file) not in UNITS}  # which the source includes
        covered = self._below({*tops, source}, reached) | set(changed)
        return Includers(tuple(sorted(tops | (own - covered))), reached=tuple(sorted(own - changed)))

    def _below(self, files: Iterable[Path], among: Collection[Path]) -> set[Path]:
        below: dict[Path, set[Path]] = {}
        for header in among:
            for file in self._above.get(header, ()):
                below.setdefault(file, set()).add(header)
        return _reached(files, below)

    @cached_property
    def _above(self) -> dict[Path, set[Path]]:
        """The files that may include each file."""
        files = self._files()
        named: dict[str, list[Path]] = {}
        for file in files:
            named.setdefault(_folded(file.name), []).append(file)
        above: dict[Path, set[Path]] = {}
        computed: dict[Path, str] = {}
        waiting = [file for file in files if _kind(file) not in OTHERS]
        seen = set(waiting)
        while waiting and not self.unknown:
            file = waiting.pop()
            content = self._read(file)
            if content.computed:
                computed[file] = content.computed
            found = {header for name, beside in content.names for header in _meant(name, beside, file, named)}
            if file.is_symlink():
                found.add(self._real(file))
            for header in found:
                above.setdefault(header, set()).add(file)
            fresh = {header for header in found if _folded(header.name) in named} - seen
            seen |= fresh
            waiting += fresh
        for file, line in computed.items():
            if not self.unknown and (file in above or _kind(file) in UNITS | HEADERS):
                path = os.path.relpath(file, self.project)
                self.unknown = f"{path} has {line!r}, and what that names is not followed"
        return above

    def _read(self, file: Path) -> Included:
        try:
            found = file.stat()
            if not stat.S_ISREG(found.st_mode):
                return Included()
            self._left -= found.st_size
            if self._left < 0:
                self.unknown = f"the sources of {self.project} have more than {MOST_BYTES >> 20} MiB"
                return Included()
            content = file.read_bytes()
        except OSError:  # it is gone, or who may not read it cannot compile it
            return Included()
        return included(content.decode("utf-8", "surrogateescape"))

    def _real(self, file: Path) -> Path:
        """Return the file that a path leads to through links, as it is listed."""
        return self.project / os.path.relpath(os.path.realpath(file), os.path.realpath(self.project))

    def _files(self) -> list[Path]:
        """Return the files of the checkout as git knows them, without those that it ignores; else all below."""
        found: list[Path] = []
        folders = [self.project]
        listed = git.files(self.project, LISTING_S) if (self.project / ".git").exists() else None
        if listed is not None:
            found = [self.project / path for path in listed]
            folders = [path for path in found if path.is_dir() and not path.is_symlink()]  # submodules
        for top in folders:
            for folder, inner, names in os.walk(top):
                inner[:] = [name for name in inner if name != ".git"]
                found += [Path(folder, name) for name in names]
                if len(found) > MOST_FILES:
                    break
        if len(found) > MOST_FILES:
            self.unknown = f"{self.project} has more than {MOST_FILES:,} files"
        return found


def _reached(files: Iterable[Path], onward: Mapping[Path, Collection[Path]]) -> set[Path]:
    """Return some files and all that lead on from them."""
    seen = set(files)
    waiting = list(seen)
    while waiting:
        fresh = set(onward.get(waiting.pop(), ())) - seen
        seen |= fresh
        waiting += fresh
    return seen


def _kind(file: Path) -> str:
    """Return what a file's suffix says, in small letters; of ``a.cu.in`` that of ``a.cu``."""
    path = PurePosixPath(file.name.lower() if not file.name.endswith("~") else "x.bak")
    while path.suffix in TEMPLATES and PurePosixPath(path.stem).suffix:
        path = PurePosixPath(path.stem)
    return path.suffix


def _folded(name: str) -> str:
    return name.casefold()  # file systems of macOS and Windows, where sources are written too


def _meant(name: str, beside: bool, file: Path, named: dict[str, list[Path]]) -> Iterator[Path]:
    """Yield the files of a checkout that an include in one of them may mean."""
    found = limits.plain(file.parent / name) if "\0" not in name else file
    if beside and ".." not in name and found in named.get(_folded(found.name), ()) and found.name == _last(name):
        yield found  # the compiler looks there first
    else:
        yield from named.get(_folded(_last(name)), ())


def _last(name: str) -> str:
    return re.split(r"[/\\]", name.strip())[-1]


def included(text: str) -> Included:
    """Return what a text may include."""
    if not any(word in text for word in ("include", "import", "embed", "\\", "??/")):
        return Included()
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    texts = dict.fromkeys((text, *(joint.sub("", text) for joint in _JOINTS)))
    names = set[tuple[str, bool]]()
    computed = ""
    # With comments and without, as what looks like the start of one may be within a string.
    for each in dict.fromkeys((*texts, *(_COMMENT.sub(" ", joined) for joined in texts))):
        for found in _DIRECTIVE.finditer(each):
            if found["macro"] is None:
                beside = found["beside"] is not None and found["word"] != "include_next"
                names.add((found["beside"] or found["other"] or "", beside))
            elif found["first"] is not None and not computed:
                start = found.end("first")
                computed = " ".join(each[start : start + 80].partition("\n")[0].split())
    return Included(frozenset(names), computed)


# What has a changed line in it when an array, or how it is indexed, changes.
SEEN_BY_HOST = (
    "function_definition", "preproc_def", "preproc_function_def", "alias_declaration", "type_definition", "declaration",
    *cuda.CLASSES,
)  # fmt: skip


@dataclass(eq=False, kw_only=True)
class OtherSources:
    """The sources of a project besides one, with their kernels as far as their launches are described."""

    source: Path
    project: Path
    sources: CatalogOptions
    settings: EmulationSettings
    _described: dict[Path, list[Neighbour]] = field(default_factory=dict, init=False)
    _including: dict[frozenset[Path], Includers] = field(default_factory=dict, init=False)

    def stopped(self, files: Mapping[Path, bytes], applied: Sequence[Applied]) -> tuple[Claim | None, list[KeptKernel]]:
        """Return what new texts of files break, or may break, elsewhere; and the kernels that they are proved for."""
        names, proved = ", ".join(file.name for file in files), list[KeptKernel]()
        if frozenset(files) not in self._including:
            self._including[frozenset(files)] = self._checkout.including(files, self.source)
        including = self._including[frozenset(files)]
        if including.unknown:
            reason = f"the patch changes {names}, and what else includes it is not known: {including.unknown}"
            return _unknown(reason), proved
        if (seen := self._on_host(files, including.reached)) is not None:
            return seen, proved
        for source in including.files:
            path = os.path.relpath(source, self.source.parent)
            for claim, changed in self._judged(source, files, applied):
                if claim is not None:
                    reason = f"the patch changes {names}, which {path} includes, too: {claim.reason}"
                    return replace(claim, reason=reason), []
                proved += changed
        return None, proved

    def _on_host(self, files: Mapping[Path, bytes], reached: Collection[Path]) -> Claim | None:
        """Return what host code of another file may notice: only the code of kernels is compared."""
        for header, text in files.items():
            if not header.is_file():
                continue
            names = host_names(read_bytes(header), text)
            for file in reached if names else ():
                if (met := mentioned_by_host(read_bytes(file), names)) is not None:
                    path = os.path.relpath(file, self.source.parent)
                    what = f"the patch changes {met[0]} of {header.name}, which the host code of {path} mentions"
                    return _unknown(f"{what} (line {met[1]})")
        return None

    @cached_property
    def _checkout(self) -> CheckoutFiles:
        return CheckoutFiles(limits.plain(self.project))

    def _judged(
        self, source: Path, headers: Mapping[Path, bytes], applied: Sequence[Applied]
    ) -> Iterator[tuple[Claim | None, list[KeptKernel]]]:
        """Yield for each kernel of a source what stops the patch, or that it is proved for it if it changes it."""
        try:
            known = self._kernels(source)
            if not known:
                yield _unknown("no launch of its kernels is described"), []
            for each in known:
                yield self._of(each, {other.symbol for other in known}, headers, applied)
        except EnvironmentLacking:
            raise
        except (NcuSwizzleError, ValueError, StopIteration) as error:
            yield _unknown(brief(error)), []

    def _kernels(self, source: Path) -> list[Neighbour]:
        if source not in self._described:
            made = [with_headers(target, self.project) for target in naming.described_in(source, self.sources)]
            self._described[source] = [neighbour(target, self.settings) for target in made]
        return self._described[source]

    def _of(
        self, kernel: Neighbour, described: Collection[str], headers: Mapping[Path, bytes], applied: Sequence[Applied]
    ) -> tuple[Claim | None, list[KeptKernel]]:
        """Return what stops the patch for one kernel, or that it is proved for it."""
        included = kernel.target.family.included()
        if not all(str(header) in included for header in headers):
            headers = {header: text for header, text in headers.items() if str(header) in included}
            if not headers:
                return _unknown("where it finds it is not known"), []
        before = code_of(kernel.target, self.settings)
        with with_files(kernel.target, headers) as after:
            try:
                code = code_of(after, self.settings)
            except (UsageError, ProgramFailed):
                return Claim(
                    about=About.REBUILT, state=ClaimState.FAILED, reason="that one does not compile any more"
                ), []
            changed = list(changed_code(before, code, ""))
            foreign = next((symbol for symbol in changed if symbol not in described), None)
            if foreign is not None:
                return _unknown(f"no launch of its kernel {demangle(foreign)} is described"), []
            if kernel.symbol not in changed:
                return None, []
            proof, mappings = kernel.proof(after, applied)
        if proof.held:
            return None, [KeptKernel(neighbour=kernel, applied=mappings, elsewhere=True)]
        return Claim(about=About.MEANING, state=proof.state, reason=f"it is not proved for {kernel.target.name}"), []


def host_names(before: bytes, after: bytes) -> frozenset[str]:
    """Return the names by which host code may see that a file has changed.

    They are those of types, macros, variables and functions that the host may run with a changed line, and new ones.
    """
    names = [frozenset(_of_lines(text, other)) for text, other in ((before, after), (after, before))]
    return names[0] | names[1]


def _of_lines(text: bytes, other: bytes) -> Iterator[str]:
    file = cuda.parse(text, "")
    lines, others = text.splitlines(), other.splitlines()
    matcher = difflib.SequenceMatcher(None, lines, others, autojunk=False)
    fresh = {n for tag, start, end, *_ in matcher.get_opcodes() if tag != "equal" for n in range(start, end)}
    for node in file.nodes(*SEEN_BY_HOST):
        if fresh.isdisjoint(range(node.line - 1, node.line + node.text.count("\n"))):
            continue
        if node.above("function_definition") or (node.type == "function_definition" and _on_device(node)):
            continue
        if node.type in cuda.CLASSES:
            yield from file.class_names(node)
            continue
        for each in (node.part("name"), *node.every("declarator")):
            if named := next((n for n in each.walk() if n.type in NAMES[:3]), NOTHING):
                yield named.text


def mentioned_by_host(text: bytes, names: Collection[str]) -> tuple[str, int] | None:
    """Return the first of some names that a file mentions outside of functions that only the device runs, and where."""
    file = cuda.parse(text, "")
    for node in (node for node in file.root.walk() if node.type in (*NAMES, "preproc_arg")):
        met = sorted(set(re.findall(r"\w+", node.text)) & set(names))
        if not met:
            continue
        function = node.above("function_definition")
        if not function or not _on_device(function):
            return met[0], node.line
    return None


def _on_device(function: Node) -> bool:
    """Return whether only the device runs a function."""
    words = function.words | set(re.findall(r"\w+", function.text.partition("(")[0]))
    return bool(words & {"__device__", "__global__"}) and "__host__" not in words


def _unknown(reason: str) -> Claim:
    return Claim(about=About.MEANING, state=ClaimState.UNKNOWN, reason=reason)
