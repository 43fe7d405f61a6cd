"""Repositories of a known history: a kernel in PTX, which is quick to assemble, and a commit with a conflict."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

STRIDE = {False: 2, True: 7}  # the shift of a lane's address: 4 bytes, without conflicts; 128, 32 ways
KERNEL = """// {remark}
.version 8.0
.target sm_90
.address_size 64
.visible .entry turn(.param .u64 y) {{
    .reg .b32 %r<5>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 tile[4096];
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, {shift};
    mov.u32 %r3, tile;
    add.u32 %r3, %r3, %r2;
    st.shared.u32 [%r3], %r1;
    bar.sync 0;
    ld.shared.u32 %r4, [%r3];
    ld.param.u64 %rd1, [y];
    cvta.to.global.u64 %rd2, %rd1;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd2, %rd3;
    st.global.u32 [%rd2], %r4;
    ret;
}}
"""
PROJECT = """[kernel.turn]
source = "kernels/turn.ptx"
grid = 1
block = 32
args = ["y=uint32[32]:out"]
"""
EXCESSIVE = 2 * 31  # of a store and a load, 32 ways each


def git(folder: Path, *words: str, date: str = "2026-03-01T12:00:00Z") -> str:
    """Run git as a user without any configuration of their own; commits are made at `date`."""
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    nothing = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **who, **nothing, "GIT_COMMITTER_DATE": date},
    ).stdout


def repository(folder: Path, commits: int, planted: int | None, broken: tuple[int, ...] = ()) -> list[str]:
    """Make a repository, return its commits; number `planted` brings the conflict, `broken` do not compile."""
    (folder / "kernels").mkdir(parents=True)
    (folder / "ncu-swizzle.toml").write_text(PROJECT, encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    names = []
    for number in range(commits):
        text = KERNEL.format(remark=f"commit {number}", shift=STRIDE[planted is not None and number >= planted])
        text = text.replace("ret;", "no such instruction;") if number in broken else text
        (folder / "kernels" / "turn.ptx").write_text(text, encoding="utf-8")
        (folder / "README").write_text(f"{number}\n", encoding="utf-8")
        git(folder, "add", "-A")
        git(folder, "commit", "-q", "-m", f"Change {number}", date=f"2026-03-01T12:{number:02}:00Z")
        names.append(git(folder, "rev-parse", "HEAD").strip())
    return names
