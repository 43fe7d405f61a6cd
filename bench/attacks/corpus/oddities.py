"""What a user may name in place of a file, and is none."""

import os
from collections.abc import Iterator
from pathlib import Path


def oddities(folder: Path) -> Iterator[Path]:
    """Yield paths of everything that a user may name in place of a report or a saved profile."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in (".ncu-rep", ".json", ".toml"):
        (folder / f"folder{suffix}").mkdir()
        (folder / f"loop{suffix}").symlink_to(folder / f"loop{suffix}")
        (folder / f"dangling{suffix}").symlink_to(folder / "nowhere")
        os.mkfifo(folder / f"pipe{suffix}")
        (folder / f"empty{suffix}").touch()
        (folder / f"binary{suffix}").write_bytes(bytes(range(256)))
        (folder / f"deep{suffix}").write_bytes(b"[" * 200_000)
        (folder / f"locked{suffix}").write_text("{}", encoding="utf-8")
        (folder / f"locked{suffix}").chmod(0)
        (folder / f"device{suffix}").symlink_to("/dev/zero")
    yield from sorted(folder.iterdir())
