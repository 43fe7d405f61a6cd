"""Two versions of a text: two kernels or files, the checkout and a commit, or files with other texts."""

from __future__ import annotations

import contextlib
import filecmp
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base.cache import sha256
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.files import is_file, read_bytes
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.certify.change import ChangeVerdict, UnitVerdict
from ncu_swizzle.certify.units import CheckedProject, Checking, KnownLaunch, Versions, project_of
from ncu_swizzle.kernels import git, halves, limits
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.halves import TranslationUnit, Tree
from ncu_swizzle.kernels.options import CatalogOptions


@dataclass(frozen=True, kw_only=True)
class Side:
    """What a word names: a unit, how its kernels are launched, and the one that is meant; "" for all of them."""

    unit: TranslationUnit
    launches: tuple[KnownLaunch, ...] = ()
    entry: str = ""

    @classmethod
    def of(cls, target: Target) -> Side:
        """Return one kernel of the catalogue or of a project."""
        return cls(unit=halves.of_target(target), launches=(KnownLaunch.of(target),), entry=target.kernel.entry)


def compare_sides(before: Side, after: Side, checking: Checking) -> ChangeVerdict:
    """Return the verdict on two kernels, or on two files with all that is in them."""
    old, new = before.unit, after.unit
    if old.source != new.source:  # __FILE__ is the name of the new one
        named = f"-Xcompiler=-fmacro-prefix-map={old.source}={new.source}"
        old = replace(old, options=(*old.options, named))
    alone = bool(before.entry or after.entry)
    versions = Versions(
        before=replace(old, archs=new.archs),
        after=new,
        trees=(_in_place(old), _in_place(new)),
        launches=tuple(_launches(before, after)),
        entries=(before.entry, after.entry) if alone else None,
    )
    sources = (before.unit.source, after.unit.source)
    digests = [sha256(read_bytes(source)) for source in sources]
    return ChangeVerdict(
        units=tuple(versions.verdicts(checking)),
        compiler=checking.toolchain.version(),
        sources=((" and ".join(dict.fromkeys(map(str, sources))), digests[0], digests[1]),),
    )


def _in_place(unit: TranslationUnit) -> Tree:
    return Tree(unit.source.parent, unit.source.parent)


def _launches(before: Side, after: Side) -> Iterator[KnownLaunch]:
    """Yield what is known of the launches of both versions. Raises UsageError if they cannot be the same."""
    if before.entry and after.entry and before.launches and after.launches:
        old, new = before.launches[0], after.launches[0]
        if old.block and new.block and old.block != new.block:
            raise UsageError(
                f"{before.entry} is launched with blocks of {old.block} threads, {after.entry} of {new.block}",
                "kernels with other blocks divide their work in other ways, which is not compared",
            )
        yield replace(old.followed_by(new), entry="")
    else:
        alone = bool(before.entry or after.entry)  # then there is one kernel to launch, whatever it is called
        for launch in dict.fromkeys(_paired(before.launches, after.launches)):
            yield replace(launch, entry="") if alone else launch


def _paired(before: Sequence[KnownLaunch], after: Sequence[KnownLaunch]) -> Iterator[KnownLaunch]:
    """Yield launches of both versions: of the same kernel with the same blocks, or the only ones that are known."""
    if len(before) == len(after) == 1:
        yield before[0].followed_by(after[0])
        return
    new = {(launch.entry, launch.block): launch for launch in after}
    for launch in before:
        yield launch.followed_by(new.pop((launch.entry, launch.block), launch))
    yield from new.values()


# A copy of a project in which some files have other texts, or that is an older commit of it. Every folder is a real one
# and every file a link, since ``..`` in an include leads to the folder that a link points into.


@contextlib.contextmanager
def copy_with(project: CheckedProject, texts: Mapping[Path, bytes]) -> Iterator[Tree]:
    """Make a copy of a project with other texts for some of its files, by their absolute paths."""
    with scratch() as folder:
        root = Path(os.path.realpath(folder))
        inside = {path for path in texts if path.is_relative_to(project.folder)}
        if outside := set(texts) - inside:
            raise UsageError(f"{min(outside)} is outside of the project {project.folder}", "put it in one checkout")
        for file in {*project.checkout.files, *inside}:
            copy = root / file.relative_to(project.folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if file in inside:
                copy.write_bytes(texts[file])
            elif not copy.exists() and file.exists():
                copy.symlink_to(file)
        _link_others(root, project.folder)
        yield Tree(root, project.folder)


def _link_others(root: Path, project: Path, known: Sequence[Path] = ()) -> None:
    """Link what git ignores, such as headers that a build wrote; not what is `known` to it, and new."""
    names = {name for path in known for name in (path, *path.parents)}
    for folder, _, _ in os.walk(root):
        original = project / Path(folder).relative_to(root)
        for entry in os.scandir(original) if original.is_dir() else ():
            copy = Path(folder, entry.name)
            if entry.name != ".git" and not os.path.lexists(copy) and Path(entry.path) not in names:
                copy.symlink_to(entry.path)


def compare_texts(
    targets: Sequence[Target],
    texts: Mapping[Path, bytes],
    checking: Checking,
    sources: CatalogOptions = CatalogOptions(),
    folder: Path | None = None,
) -> ChangeVerdict:
    """Return the verdict on a patch: new texts of files, by paths, that kernels of one source are made from.

    `folder` is the project's, if it is known.
    """
    project = CheckedProject(folder=folder or project_of(targets[0].source), sources=sources)
    changed = {limits.plain(path): text for path, text in texts.items()}
    own = list(dict.fromkeys(map(halves.of_target, targets)))
    launches = [KnownLaunch.of(target) for target in targets]
    before = Tree(project.folder, project.folder)
    old = {path: read_bytes(path) if is_file(path) else b"" for path in changed}
    changed = {path: text for path, text in changed.items() if old[path] != text}
    with copy_with(project, changed) as after:
        units = tuple(project.verdicts(changed, own, (before, after), launches, checking))
    return _verdict(project, units, {path: (old[path], text) for path, text in changed.items()}, checking)


def compare_with_commit(
    sides: Sequence[Side], name: str, checking: Checking, sources: CatalogOptions = CatalogOptions()
) -> ChangeVerdict:
    """Return the verdict on the working tree and the commit at which the current branch left another one.

    All units that read a file which differs are compared. Raises UsageError outside of a checkout, and for what is not
    a commit.
    """
    top = git.top(sides[0].unit.source.parent)
    if top is None:
        raise UsageError(f"{sides[0].unit.source} is in no git checkout", "prove BEFORE AFTER compares two files")
    commit = git.branched_from(top, name)
    project = CheckedProject(folder=limits.plain(top), sources=sources)
    with scratch() as folder:
        root = Path(os.path.realpath(folder))
        left_out = git.unpack(top, commit, root)
        before = Tree(root, project.folder)
        for source in (side.unit.source for side in sides):
            if not is_file(before.placed(source)):
                raise UsageError(f"{name} has no {source.name}", "prove BEFORE AFTER compares two files")
        changed = dict(_differing(root, project))
        files = [*project.checkout.files, *(project.folder / path for path in left_out)]
        _link_others(root, project.folder, files)
        own = list(dict.fromkeys(side.unit for side in sides))
        trees = (before, Tree(project.folder, project.folder))
        launches = [launch for side in sides for launch in side.launches]
        units = tuple(project.verdicts(changed, own, trees, launches, checking))
    return _verdict(project, units, changed, checking)


def _differing(root: Path, project: CheckedProject) -> Iterator[tuple[Path, tuple[bytes, bytes]]]:
    """Yield the files that a copy of a project has with another text, or lacks, or has alone; and both texts."""
    files = {file for file in project.checkout.files if file.is_file()}
    for folder, _, names in os.walk(root):
        files |= {project.folder / Path(folder, name).relative_to(root) for name in names}
    for file in sorted(files):
        copy = root / file.relative_to(project.folder)
        both = is_file(copy) and is_file(file)
        if not (both and filecmp.cmp(copy, file, shallow=False)):
            old, new = (read_bytes(path) if is_file(path) else b"" for path in (copy, file))
            yield file, (old, new)


def _verdict(
    project: CheckedProject,
    units: Sequence[UnitVerdict],
    changed: Mapping[Path, tuple[bytes, bytes]],
    checking: Checking,
) -> ChangeVerdict:
    return ChangeVerdict(
        units=tuple(units),
        compiler=checking.toolchain.version(),
        sources=tuple((str(path), sha256(old), sha256(new)) for path, (old, new) in sorted(changed.items())),
        unknown=project.checkout.unknown,
    )
