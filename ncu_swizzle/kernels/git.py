"""The git commit of a kernel's sources: git lists what HEAD holds, and the files are compared here."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ncu_swizzle.base.bounds import output_of
from ncu_swizzle.base.errors import BadFile, ProgramFailed, UsageError
from ncu_swizzle.base.files import not_writable, read_bytes
from ncu_swizzle.base.paths import tool_environment
from ncu_swizzle.kernels.family import Family

# Git's answers about a checkout, which may be untrusted.
#
# Its .git/config can name programs (core.fsmonitor, filters, hooks) that git runs when it looks at the index or the
# working tree. So git is only asked for what commits hold, and their files are written here.
#
# The names in a commit's trees are anyone's, too: `git clone` and `git fetch` accept ``..``, ``a/b`` and ``.git`` in
# them, and only a checkout refuses them. `unpack` is the one place that writes under such names.

FETCH = "git fetch origin, and name a branch, a tag or a commit; in a shallow clone, fetch that commit"
TIMEOUT_S = 10.0
MOMENT_S = 1.0
_answers: dict[tuple[Path, tuple[str, ...], bytes], tuple[float, bytes]] = {}
# No repository that poses as a folder of files, no daemon of the checkout's, no fetch of what is missing.
SAFELY = ("-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false")
OFFLINE = {"GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}
FILE, LINK, TREE = b"100", b"120", b"040"  # how modes start; the others are submodules

MOST_PRINTED = 64 << 20  # bytes of an answer; a tree of ten trees of ten trees … would be listed forever
READING_S = 120.0  # for the contents of some files
AT_ONCE = 256, 64 << 20  # files that git returns in one call, and their bytes
LARGEST_FILE = 256 << 20  # bytes; what is larger is not unpacked
MOST_BYTES = 4 << 30  # that are unpacked
LONGEST_PATH, DEEPEST = 1024, 100  # bytes, folders

# What is ignored in names by HFS+, and what NTFS takes for .git: a short name, a stream, dots and spaces at the end.
_IGNORED = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_DOT_GIT = re.compile(r"(?:\.git|git~\d+)[. ]*(?::.*)?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Blob:
    """An entry of a commit: its path in the checkout, its mode in octal digits, git's name for its content, bytes."""

    path: bytes
    mode: bytes
    name: str
    size: int = 0  # if git was asked for it


def said(folder: Path, *arguments: str, given: bytes = b"", timeout_s: float = TIMEOUT_S) -> bytes:
    """Return what git prints in a folder, or printed a moment ago: a sweep asks for each of its points.

    Nothing if git is missing or fails.
    """
    key, now = (folder, arguments, given), time.monotonic()
    asked, answer = _answers.get(key, (-MOMENT_S, b""))
    if now - asked >= MOMENT_S:
        answer = _answer(folder, arguments, given, timeout_s) or b""
        _answers[key] = (now, answer)
    return answer


def _answer(
    folder: Path, arguments: Sequence[str], given: bytes, timeout_s: float, most: int = MOST_PRINTED
) -> bytes | None:
    command = ["git", *SAFELY, "-C", str(folder), *arguments]
    return output_of(command, given, timeout_s, most, {**tool_environment(), **OFFLINE})


def top(folder: Path) -> Path | None:
    """Return the top folder of the checkout that a folder is in; None outside of git."""
    top_level = os.fsdecode(said(folder, "rev-parse", "--show-toplevel").removesuffix(b"\n"))
    return Path(top_level) if top_level else None


def commit_named(folder: Path, name: str) -> str:
    """Return a commit's full name by anything that names it; empty if nothing of that name is a commit here."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    return said(folder, *words).decode().strip()


def branched_from(folder: Path, name: str) -> str:
    """Return the commit at which the current branch left another one, or the commit itself if they share none.

    Raises UsageError for what is not a commit.
    """
    commit = commit_named(folder, name)
    if not commit:
        raise UsageError(f"{name} is not a commit of this checkout", FETCH)
    return said(folder, "merge-base", commit, "HEAD").decode().strip() or commit


def blobs(folder: Path, commit: str = "HEAD") -> Sequence[Blob]:
    """Return every file and link of a commit, except those that no checkout can hold."""
    return _checked_out(said(folder, "ls-tree", "-r", "-z", "--full-tree", commit))


@lru_cache(maxsize=2)
def _checked_out(listing: bytes) -> tuple[Blob, ...]:
    """Return the blobs that git listed, which a sweep asks for at each of its points."""
    return tuple(blob for blob in _listed(listing) if blob.mode.startswith((FILE, LINK)) and not _refused(blob.path))


def _listed(listing: bytes) -> Iterator[Blob]:
    for entry in listing.split(b"\0"):
        kind, _, path = entry.partition(b"\t")
        if kind:
            mode, _, name, *size = kind.split()
            yield Blob(path=path, mode=mode, name=name.decode(), size=int(size[0]) if size and size[0] != b"-" else 0)


def _refused(path: bytes) -> str:
    """Return why a path in a commit is not written; empty if it is.

    A backslash is a letter here and separates folders on Windows, so what is between two of them is looked at, too.
    """
    names = os.fsdecode(path).split("/")
    if len(path) > LONGEST_PATH or len(names) > DEEPEST:
        return "is too long"
    for part in itertools.chain(names, *(name.split("\\") for name in names)):
        if part in ("", ".", "..") or _DOT_GIT.fullmatch(_IGNORED.sub("", part)):
            return "leads elsewhere"
    return ""


def files(folder: Path, timeout_s: float) -> list[Path] | None:
    """Return the tracked files below a folder of a checkout, and the others that it does not ignore; None without git.

    The index and the working tree are only listed: that runs neither filters nor hooks, and SAFELY no fsmonitor.
    """
    listing = _answer(folder, ("ls-files", "-z", "--cached", "--others", "--exclude-standard"), b"", timeout_s)
    if listing is None:
        return None
    names = {path.removesuffix(b"/") for path in listing.split(b"\0")}  # another repository's folder ends with one
    return [Path(os.fsdecode(path)) for path in names if not _refused(path)]


# ---------------------------------------------------------------------------------------------- unpacking a commit


def unpack(checkout: Path, commit: str, folder: Path) -> frozenset[Path]:
    """Write a commit's files and links below an empty folder, as git stores them; return the paths that are left out.

    Those are links that lead out of it, submodules, files of more than LARGEST_FILE and what a partial clone lacks. No
    filter or hook runs. Raises BadFile, before anything is written, for a commit that git would not check out;
    ProgramFailed if git does not give it.
    """
    listing = _answer(checkout, ("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit), b"", READING_S)
    if listing is None:
        raise ProgramFailed(
            f"git does not list the files of {commit[:12]}, or there are too many", "git fsck says what is damaged"
        )
    entries = list(_listed(listing))
    _refuse_hostile(entries, commit)
    files = [entry for entry in entries if entry.mode.startswith((FILE, LINK)) and entry.size <= LARGEST_FILE]
    if sum(file.size for file in files) > MOST_BYTES:
        raise BadFile(f"the files of {commit[:12]} have more than {MOST_BYTES >> 30} GiB", "name another commit")
    left_out = {entry.path for entry in entries if not entry.mode.startswith(TREE)}
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            for blob, content in _contents(checkout, files):
                if _write(root, blob, content):
                    left_out.remove(blob.path)
        finally:
            os.close(root)
    except OSError as error:
        raise not_writable(folder, error) from error
    return frozenset(Path(os.fsdecode(path)) for path in left_out)


def _refuse_hostile(entries: Sequence[Blob], commit: str) -> None:
    """Raise BadFile for an entry that leads elsewhere, comes twice, or lies in something that is not a folder."""
    folders = {entry.path for entry in entries if entry.mode.startswith(TREE)} | {b""}
    seen = set[bytes]()
    for entry in entries:
        why = _refused(entry.path)
        if entry.path in seen:
            why = "is there twice"
        elif not why and entry.path.rpartition(b"/")[0] not in folders:
            why = "is one name with / in it"  # git lists it as it lists a file in a folder
        if why:
            shown = os.fsdecode(entry.path)
            raise BadFile(
                f"commit {commit[:12]} is not unpacked: its entry {shown!r} {why}",
                "git fsck says what is wrong with it",
            )
        seen.add(entry.path)


def _contents(checkout: Path, files: Collection[Blob]) -> Iterator[tuple[Blob, bytes]]:
    """Yield the contents of files, without those that the repository lacks; raise ProgramFailed if git fails."""
    together: list[Blob] = []
    size = 0
    for blob in files:
        if together and (len(together) == AT_ONCE[0] or size + blob.size > AT_ONCE[1]):
            yield from _read(checkout, together, size)
            together, size = [], 0
        together.append(blob)
        size += blob.size
    yield from _read(checkout, together, size)


def _read(checkout: Path, files: Sequence[Blob], size: int) -> Iterator[tuple[Blob, bytes]]:
    asked = "".join(f"{blob.name}\n" for blob in files).encode()
    answer = _answer(checkout, ("cat-file", "--batch"), asked, READING_S, size + 256 * len(files))
    if answer is None:
        raise ProgramFailed("git does not give the files of a commit", "git fsck says what is damaged")
    at = 0
    for blob in files:
        end = answer.find(b"\n", at)  # of "NAME blob SIZE", or "NAME missing"
        header = answer[at:end].split(b" ")
        at = end + 1
        if header[1:] != [b"missing"]:
            yield blob, answer[at : at + blob.size]
            at += blob.size + 1


def _write(root: int, blob: Blob, content: bytes) -> bool:
    """Write a file or a link below an open folder, through real folders only; return whether it was, see `unpack`."""
    *folders, name = blob.path.split(b"/")
    with contextlib.ExitStack() as opened:
        folder = root
        for part in folders:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, 0o700, dir_fd=folder)
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
            opened.callback(os.close, folder)
        if not blob.mode.startswith(LINK):
            handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
        elif _stays_inside(content, len(folders)):
            os.symlink(content, name, dir_fd=folder)
        else:
            return False
    return True


def _stays_inside(link: bytes, depth: int) -> bool:
    """Return whether a link in a folder that deep leads to something in the commit.

    All ``..`` are at its start, where the folders that they leave are real ones; behind a link they would not be.
    """
    names = link.split(b"/")
    up = next((number for number, name in enumerate(names) if name != b".."), len(names))
    return up <= depth and len(link) <= LONGEST_PATH and b"\0" not in link and not {b"", b".."} & {*names[up:]}


def commit_of_family(family: Family) -> str:
    """Return the commit of a family's folder, with ``-dirty`` if its description or a source in it differs."""
    return commit_of(family.folder, map(Path, family.included()) if family.standalone else None)


def commit_of(folder: Path, files: Iterable[Path] | None = None) -> str:
    """Return the commit checked out in the folder, with ``-dirty`` if its tracked files differ; empty outside git.

    `files` are those to compare, by default all in the folder.
    """
    root, _, commit = said(folder, "rev-parse", "--show-toplevel", "--short=12", "HEAD").rstrip().rpartition(b"\n")
    files_of_head = [blob for blob in blobs(folder) if blob.mode.startswith(FILE)]
    if not commit or not files_of_head:
        return ""
    top = os.path.realpath(root).rstrip(b"/") + b"/"
    below = os.fsencode(os.path.realpath(folder)).rstrip(b"/") + b"/"
    compared = None if files is None else {os.fsencode(os.path.realpath(file)) for file in files}
    for blob in files_of_head:
        file = top + blob.path  # as bytes: names need not be UTF-8, and there can be many
        if (file.startswith(below) if compared is None else file in compared) and _differs(file, blob.name):
            return f"{commit.decode()}-dirty"
    return commit.decode()


def _differs(file: bytes, name: str) -> bool:
    """Return whether a file is not the blob of that name, even with the line ends of git's."""
    try:
        content = read_bytes(Path(os.fsdecode(file)))
    except BadFile:
        return True
    algorithm = "sha1" if len(name) == 40 else "sha256"
    return name not in (_blob(content, algorithm), _blob(content.replace(b"\r\n", b"\n"), algorithm))


def _blob(content: bytes, algorithm: str) -> str:
    """Return git's name for a file's content."""
    return hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
