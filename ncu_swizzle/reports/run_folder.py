"""The folder of one run: reports, profiles, the HTML page, and the manifest ``run.json``.

A run is built in a hidden folder next to its destination and moved there when complete, so that an interrupted one
leaves nothing behind. A run of many launches is filled in its place instead: whatever ends it, each profile that was
finished is there, and the same command goes on with the others. So it does if it makes a run of each of several
kernels: until all are there, each says which command made it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncu_swizzle.base import unfinished
from ncu_swizzle.base.errors import BadFile, DamagedFile, NotWritable
from ncu_swizzle.base.files import brief, locked, not_writable, note_finished, read_bytes, read_json, slug, write_json
from ncu_swizzle.kernels.options import RUN_MANIFEST
from ncu_swizzle.reports import remarks
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import Destination

if TYPE_CHECKING:
    from ncu_swizzle.reports.pairing import Row

MANIFEST, REPORT = RUN_MANIFEST, "report.html"
DEFAULT = Path("swizzle-out")
MOST_BYTES = 256 << 20  # of a saved profile
AGAIN = "profile the kernel again"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run: the kernel or program it was made for, and all profiles, the baseline first.

    For a program, `rows` holds the matching launches, and `columns` names their reports, the program's own last.
    """

    kernel: str
    profiles: tuple[Profile, ...]
    rows: tuple[Row, ...] = ()
    columns: tuple[str, ...] = ()
    launches: int = 0  # of a program that has not ended: how many launches are expected

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing of a run that was not finished."""
        if not self.launches:
            return ()
        return (f"{len(self.rows)} of {self.launches} launches: the run was not finished; the same command goes on.",)

    @property
    def subjects(self) -> tuple[Profile, ...]:
        """The profiles of the run's own subject: one kernel, or the program's launches."""
        if self.rows:
            return tuple(row[-1] for row in self.rows if row[-1] is not None)
        return tuple(profile for profile in self.profiles if profile.kernel.name == self.kernel)[:1]


@contextlib.contextmanager
def staging(near: Path) -> Iterator[Path]:
    """Yield an empty folder on the same disk as `near`; remove it at the end in any case, see `unfinished`.

    Parent folders created for it are also removed if still empty.
    """
    created = [parent for parent in near.parents if not parent.exists()]

    def remove_empty() -> None:
        for folder in created:
            with contextlib.suppress(OSError):
                folder.rmdir()

    with contextlib.ExitStack() as stack:
        stack.callback(remove_empty)
        try:
            near.parent.mkdir(parents=True, exist_ok=True)
            folder = stack.enter_context(unfinished.folder(near.parent, f".{near.name}"))
        except OSError as error:
            raise not_writable(f"to {near.parent}", error) from error
        yield folder


def refuse_to_overwrite(destination: Destination) -> None:
    """Raise NotWritable, before any work is done, if the destination already holds a run."""
    folder = destination.export
    if folder is not None and not destination.force_overwrite and (folder / MANIFEST).exists():
        raise _taken(folder, MANIFEST)


def _taken(folder: Path, files: str) -> NotWritable:
    return NotWritable(f"{folder} already holds {files}", "replace it with -f, or choose another folder with -o")


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Create the folder and lock it, so that one command at a time fills it; raise NotWritable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise not_writable(f"to {folder}", error) from error
    try:
        # The lock ends with the process that holds it: one that is killed leaves none behind.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise NotWritable(
            f"another command is writing to {folder}", "wait until it ends, or name another folder with -o"
        ) from error
    try:
        yield
    finally:
        os.close(handle)


PIECES = "[0-9][0-9][0-9]*-*.json"  # the profiles of launches, by their numbers


@contextlib.contextmanager
def filled(kernel: str, destination: Destination, depends_on: str, launches: int) -> Iterator[Path]:
    """Yield the folder of a run that is filled in its place; `finish` makes it a finished one.

    That is the folder in which the same run was begun: with what it depends on, by a digest. Else it is a new one, as
    `publish` chooses it. If nothing of it was finished, it is removed again. Raises NotWritable.
    """
    folder, begun = _begun(kernel, destination, depends_on)
    existed = folder.exists()
    with held(folder):
        if not begun:
            for name in (*_profiles_of(folder), REPORT):
                (folder / name).unlink(missing_ok=True)
            content = {"kernel": kernel, "profiles": [], "unfinished": {"of": depends_on, "launches": launches}}
            write_json(folder / MANIFEST, content)
        note_finished(folder)
        try:
            yield folder
        finally:
            if not any(folder.glob(PIECES)):
                (folder / MANIFEST).unlink(missing_ok=True)
                if not existed:
                    shutil.rmtree(folder, ignore_errors=True)


def _begun(kernel: str, destination: Destination, depends_on: str) -> tuple[Path, bool]:
    """Return the folder to fill, and whether the same run was begun there."""
    if destination.export is not None:
        begun = _unfinished(destination.export).get("of") == depends_on
        if not begun:
            refuse_to_overwrite(destination)
        return destination.export, begun
    number = 1
    while (folder := _numbered(kernel, number)).exists():
        if _unfinished(folder).get("of") == depends_on and not _is_held(folder):
            return folder, True
        number += 1
    last = _last_run(kernel) if destination.force_overwrite else None
    return last or folder, False


def _is_held(folder: Path) -> bool:
    """Return whether another command is filling a folder."""
    try:
        with held(folder):
            return False
    except NotWritable:
        return True


def _unfinished(folder: Path) -> dict[str, Any]:
    """Return what a run's manifest says of its being filled; nothing if it is finished, or there is none."""
    with contextlib.suppress(BadFile, DamagedFile, LookupError, TypeError, AttributeError):
        said = read_json(folder / MANIFEST)["unfinished"]
        if isinstance(said.get("of"), str) and isinstance(said.get("launches"), int) and said["launches"] > 0:
            return dict(said)
    return {}


def save_profiles(staged: Path, names: Sequence[str], profiles: Sequence[Profile]) -> list[str]:
    """Save the profiles under these names and return the file names."""
    files = [f"{slug(name)}.json" for name in names]
    for file, profile in zip(files, profiles, strict=True):
        profile.save(staged / file)
    return files


def finish(
    staged: Path,
    kernel: str,
    profiles: Sequence[str],
    columns: Sequence[str] = (),
    rows: Sequence[Row] = (),
    depends_on: str = "",
) -> None:
    """Write the manifest; `profiles` are the file names of the saved profiles, the baseline first.

    For a program, they are those in `rows`, left to right and top to bottom. `depends_on` is for `made_before`.
    """
    content: dict[str, Any] = {"kernel": kernel, "profiles": list(profiles)}
    if depends_on:
        content[OF_SEVERAL] = depends_on
    if rows:
        names = iter(profiles)
        named = [[None if profile is None else next(names) for profile in row] for row in rows]
        content |= {"columns": list(columns), "rows": named}
    write_json(staged / MANIFEST, content)


OF_SEVERAL = "of_several"


def made_before(kernel: str, destination: Destination, depends_on: str) -> Path | None:
    """Return the folder of a kernel's run that the same command for several kernels made before it was ended."""
    for folder in [destination.export] if destination.export else _of_name(kernel):
        with contextlib.suppress(BadFile, DamagedFile, LookupError, TypeError):
            if read_json(folder / MANIFEST)[OF_SEVERAL] == depends_on:
                return folder
    return None


def all_made(folders: Sequence[Path]) -> None:
    """Note in the runs of several kernels that their command is done: the next one makes new runs."""
    for folder in folders:
        with contextlib.suppress(BadFile, DamagedFile, LookupError, TypeError):
            content = read_json(folder / MANIFEST)
            del content[OF_SEVERAL]
            write_json(folder / MANIFEST, content)


def publish(staged: Path, kernel: str, destination: Destination) -> Path:
    """Move a finished run to its destination and return it.

    By default that is swizzle-out/KERNEL, or the first free one of KERNEL-2, KERNEL-3, …, so that nothing is lost;
    with `force_overwrite` the last one there is. In a named folder, existing files are only replaced with
    `force_overwrite`; otherwise raises NotWritable.
    """
    if destination.export is not None:
        return _move_into(staged, destination.export, destination.force_overwrite)
    if destination.force_overwrite and (last := _last_run(kernel)):
        stale = _profiles_of(last)
        folder = _move_into(staged, last, overwrite=True)
        for name in stale - _profiles_of(last):
            (last / name).unlink(missing_ok=True)
        return folder
    number = 1
    while True:
        folder = _numbered(kernel, number)
        try:
            # Renaming to a missing or empty folder is atomic.
            staged.chmod(0o755)
            staged.rename(folder)
            note_finished(folder)
            return folder
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise not_writable(folder, error) from error
            number += 1


def _numbered(kernel: str, number: int) -> Path:
    return DEFAULT / (kernel if number == 1 else f"{kernel}-{number}")


def _of_name(kernel: str) -> Iterator[Path]:
    """Yield the folders of this name in swizzle-out."""
    numbered = (_numbered(kernel, number) for number in itertools.count(1))
    return itertools.takewhile(Path.exists, numbered)


def _last_run(kernel: str) -> Path | None:
    """Return the last run of this name in swizzle-out; None without one, or if it is not a run's folder."""
    *_, last = (None, *_of_name(kernel))
    return last if last is not None and (last / MANIFEST).is_file() else None


def _move_into(staged: Path, folder: Path, overwrite: bool) -> Path:
    files = sorted(staged.iterdir(), key=lambda file: file.name == MANIFEST)  # manifest last
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):  # of two concurrent runs, one wins completely
            taken = [file.name for file in files if (folder / file.name).exists()]
            if taken and not overwrite:
                raise _taken(folder, ", ".join(taken))
            for file in files:
                file.replace(folder / file.name)
                note_finished(folder / file.name)
    except OSError as error:
        raise not_writable(f"to {folder}", error) from error
    return folder


def _profiles_of(folder: Path) -> set[str]:
    """Return the names of the saved profiles of the run in a folder; none if there is no intact run."""
    try:
        names = read_json(folder / MANIFEST)["profiles"]
        return {name for name in names if isinstance(name, str) and _plain(name) and name.endswith(".json")}
    except (BadFile, DamagedFile, LookupError, TypeError):
        return set()


def load(folder: Path) -> Run:
    """Read a run back; raise BadFile or DamagedFile."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise BadFile(f"{folder} is not a run's folder: it has no {MANIFEST}", "ls swizzle-out shows the runs")
    content = read_json(manifest)
    if not isinstance(content, dict) or not isinstance(content.get("kernel"), str):
        raise DamagedFile(f"{manifest} is damaged: it names no kernel", AGAIN)
    names, unfinished = content.get("profiles"), _unfinished(folder)
    if unfinished:
        names = sorted(file.name for file in folder.glob(PIECES))
        if not names:
            raise BadFile(f"{folder}: no launch of this run was finished", "the same command goes on with it")
        content |= {"columns": [content["kernel"]], "rows": [[name] for name in names]}
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and _plain(name) for name in names):
        raise DamagedFile(f"{manifest} is damaged: it lists no profiles", AGAIN)
    columns, rows = _table(content, names, manifest)
    profiles = {name: load_profile(folder / name) for name in dict.fromkeys(names)}  # once, even if listed repeatedly
    if not rows and all(profile.kernel.name != content["kernel"] for profile in profiles.values()):
        raise DamagedFile(f"{manifest} is damaged: none of its profiles is of {content['kernel']!r}", AGAIN)
    launches = tuple(tuple(profiles[name] if name else None for name in row) for row in rows)
    return Run(
        kernel=content["kernel"], profiles=tuple(profiles.values()), rows=launches, columns=columns,
        launches=unfinished.get("launches", 0),
    )  # fmt: skip


def _table(
    content: dict[str, Any], names: Sequence[str], manifest: Path
) -> tuple[tuple[str, ...], list[list[str | None]]]:
    """Return the rows of matching launches of a program, and their columns; both empty for a kernel's run."""
    columns, rows = content.get("columns", []), content.get("rows", [])
    well_formed = (
        isinstance(columns, list)
        and isinstance(rows, list)
        and all(isinstance(column, str) for column in columns)
        and all(isinstance(row, list) and len(row) == len(columns) for row in rows)
    )
    allowed = {None, *names}
    if not well_formed or any(not isinstance(name, str | None) or name not in allowed for row in rows for name in row):
        raise DamagedFile(f"{manifest} is damaged: its rows do not match its profiles", AGAIN)
    return tuple(columns), rows


def _plain(name: str) -> bool:
    """Return whether it names a file in the folder itself: a manifest may not point elsewhere."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def load_profile(file: Path) -> Profile:
    """Read a saved profile; raise BadFile or DamagedFile."""
    if file.is_file() and file.stat().st_size > MOST_BYTES:
        raise BadFile(f"{file} has more than {MOST_BYTES >> 20} MiB, the limit of a saved profile", AGAIN)
    data = read_bytes(file)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise BadFile(f"{file} cannot be read: {error}", "give a file written by ncu-swizzle profile") from error
    try:
        profile = Profile.from_json(text, str(file))
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise DamagedFile(f"{file} is damaged: {brief(error)}", AGAIN) from error
    if wrong := remarks.impossible(profile):
        raise DamagedFile(f"{file} is damaged: {wrong}", AGAIN)
    if too_large := remarks.too_large(profile):
        raise BadFile(f"{file} is too large to show: {too_large}", AGAIN)
    return profile
