"""A scripted agent frees kernels of planted conflicts by the tools alone, without a GPU."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import NEEDS_MCP, text, with_client
from tests.support.fix_corpus import CORPUS, REFUSED
from tests.support.marks import NEEDS_ALL
from tests.support.planted import LAUNCH, TRANSPOSE

pytestmark = [NEEDS_MCP, NEEDS_ALL]
GOAL = 20
AT_ONCE = 2  # calls, as many as the server makes


async def freed(client: Any, file: str, launch: dict[str, Any] | None = None) -> bool:
    """Work as an agent does: look, fix, look again; return whether nothing conflicts any more."""
    described = {"launch": launch} if launch else {}
    before = await client.call_tool("lint", {"files": [file], **described})
    assert before.structured_content["outcome"] == "fail", text(before)
    made = await client.call_tool("fix", {"file": file, "write": True, **described})
    if made.is_error or not made.structured_content["written"]:
        return False
    after = await client.call_tool("lint", {"files": [file], **described})
    return bool(after.structured_content["outcome"] == "pass")


def test_a_kernel_that_nothing_describes_is_freed(tmp_path: Path) -> None:
    source = tmp_path / "t.cu"
    source.write_text(TRANSPOSE, encoding="utf-8")

    async def use(client: Any) -> None:
        assert await freed(client, "t.cu", LAUNCH)

    with_client(tmp_path, use)
    assert source.read_text(encoding="utf-8") != TRANSPOSE


@pytest.mark.slow
def test_twenty_kernels_are_freed(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    shutil.copytree(CORPUS, folder)
    refused = {name.replace("-", "_") for name in REFUSED}
    files = [file.name for file in sorted(folder.glob("*.cu")) if file.stem not in refused]
    done: list[str] = []

    async def work(client: Any, left: Iterator[str]) -> None:
        for file in left:
            if len(done) >= GOAL:
                return
            if await freed(client, file):
                done.append(file)

    async def use(client: Any) -> None:
        left = iter(files)
        await asyncio.gather(*(work(client, left) for _ in range(AT_ONCE)))

    with_client(folder, use, limit_s=1500)
    assert len(done) >= GOAL, done
