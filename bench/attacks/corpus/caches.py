"""Caches that somebody else filled, or that a disk damaged; what a command prints may not depend on them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from jinja2.bccache import bc_magic  # how Jinja's own compiled templates begin

from bench.attacks.corpus import bytewise, hostile, intact, originals
from bench.attacks.corpus.case import Draft
from ncu_swizzle.base import cache

NOBODY = 65534
VALUES = (
    b"null",
    b"[]",
    b"{}",
    b"1",
    b'"x"',
    b"[[1]]",
    b'{"0": 1}',
    b'{"0": ["x", 1]}',
    b"[" * 100_000,
    b"",
    b"\xff",
    b"NaN",
    b'{"units": []}',
)


def damaged_cache(chance: Random) -> Draft:
    """Run a command that uses the cache, on one that is damaged."""
    source = chance.choice(originals.RECORDED)
    files = {"k.ncu-rep": originals.report(source), **intact.project_files()}
    command, outputs = chance.choice(COMMANDS)
    damage = chance.choice(list(DAMAGES))
    return Draft(damage, source, files, command, False, outputs, {}, damage, str(chance.random()))


COMMANDS = (
    (
        ("report", "k.ncu-rep", "-o", "out.html", "--markdown", "out.md", "--config", "none"),
        ("out.html", "out.md"),
    ),
    (("report", "k.ncu-rep", "-o", "out.html"), ("out.html",)),
    (("check", "k.ncu-rep", "--config", "none"), ()),
    (("lint", "my.cu", "--config", "none", *intact.TYPED), ()),
    (("explain", "(8,8):(8,1)", "--svg", "out.svg"), ("out.svg",)),
)


def spoil(home: Path, damage: str, seed: str) -> None:
    """Do the damage to the cache below XDG_CACHE_HOME."""
    chance = Random(seed)
    folder = home / "ncu-swizzle"
    entries = sorted(file for file in folder.rglob("*") if file.is_file())
    chosen = entries if chance.random() < 0.6 else chance.sample(entries, min(len(entries), 3))
    DAMAGES[damage](folder, chosen, chance)


Spoil = Callable[[Path, list[Path], Random], None]


def _bytewise(name: str) -> Spoil:
    def damage(folder: Path, entries: list[Path], chance: Random) -> None:  # noqa: ARG001 - as every damage
        for file in entries:
            data = file.read_bytes() or b"\0"
            _rewrite(file, bytewise.BINARY[name](data, data[::-1], chance))

    return damage


def _each(change: Callable[[Path, Random], None]) -> Spoil:
    def damage(folder: Path, entries: list[Path], chance: Random) -> None:  # noqa: ARG001 - as every damage
        for file in entries:
            change(file, chance)

    return damage


def _rewrite(file: Path, data: bytes) -> None:
    file.unlink(missing_ok=True)
    file.write_bytes(data)


def _sealed(file: Path, chance: Random) -> None:
    """Put content of another type under a digest that fits, as `cache.save` does and as entries were written before."""
    content = chance.choice((*VALUES, hostile.pickled()))
    _rewrite(file, cache.sha256(content).encode() + content)


def _saved(file: Path, chance: Random) -> None:
    """Save content of another type through the cache itself."""
    home = file.parents[2]
    old = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(home)
    try:
        cache.save(file.parent.name, file.name, chance.choice((*VALUES, hostile.pickled())))
    finally:
        os.environ.pop("XDG_CACHE_HOME")
        if old is not None:
            os.environ["XDG_CACHE_HOME"] = old


def _pickle(file: Path, chance: Random) -> None:
    head = chance.choice((b"", file.read_bytes()[:64], bc_magic, bc_magic))
    _rewrite(file, head + hostile.pickled())


def _swapped(folder: Path, entries: list[Path], chance: Random) -> None:  # noqa: ARG001 - as every damage
    contents = [file.read_bytes() for file in entries]
    chance.shuffle(contents)
    for file, content in zip(entries, contents, strict=True):
        _rewrite(file, content)


def _folder_for_file(file: Path, chance: Random) -> None:  # noqa: ARG001 - as every damage
    file.unlink()
    (file / "inside").mkdir(parents=True)


def _file_for_folder(folder: Path, entries: list[Path], chance: Random) -> None:  # noqa: ARG001
    folders = [folder, *(path for path in folder.iterdir() if path.is_dir())]
    place = chance.choice(folders)
    shutil.rmtree(place)
    place.write_bytes(b"no folder")


def _link(file: Path, chance: Random) -> None:
    file.unlink()
    file.symlink_to(chance.choice((file.name, "nowhere", "/dev/zero", "/etc/passwd", "/", "..")))


def _pipe(file: Path, chance: Random) -> None:  # noqa: ARG001 - as every damage
    file.unlink()
    os.mkfifo(file)


def _locked(file: Path, chance: Random) -> None:
    file.chmod(chance.choice((0, 0o200, 0o777, 0o4777)))


def _foreign(file: Path, chance: Random) -> None:
    """Give a hostile entry to another user; without root, make it writable for everybody."""
    _sealed(file, chance)
    with contextlib.suppress(PermissionError):
        os.chown(file, NOBODY, NOBODY)
    file.chmod(0o666)


def _linked_folder(folder: Path, entries: list[Path], chance: Random) -> None:  # noqa: ARG001
    moved = folder.with_name("elsewhere")
    folder.rename(moved)
    folder.symlink_to(moved if chance.random() < 0.5 else "ncu-swizzle")


def _many(folder: Path, entries: list[Path], chance: Random) -> None:
    for number in range(2000):
        (
            folder / entries[0].parent.name / f"{chance.choice(hostile.CONTROLS[:3])[:20]}{number}".replace("/", "-")
        ).touch()


DAMAGES: Mapping[str, Spoil] = {
    **{
        name: _bytewise(name)
        for name in ("cut", "one bit", "spliced with another", "a hole of zeros", "noise", "longer")
    },
    "another type, sealed": _each(_sealed),
    "another type, saved": _each(_saved),
    "a pickle": _each(_pickle),
    "swapped": _swapped,
    "a folder for a file": _each(_folder_for_file),
    "a file for a folder": _file_for_folder,
    "a link": _each(_link),
    "a pipe": _each(_pipe),
    "foreign modes": _each(_locked),
    "another owner": _each(_foreign),
    "a linked folder": _linked_folder,
    "many strangers": _many,
}
