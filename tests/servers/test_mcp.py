"""The MCP server as a client of the SDK sees it, started as a user's agent starts it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import NEEDS_MCP, text, with_client
from tests.support.marks import NEEDS_ALL
from tests.support.places import RECORDINGS
from tests.support.planted import ENTRY, LAUNCH, TRANSPOSE

pytestmark = [
    NEEDS_MCP,
    NEEDS_ALL,
]
TOOLS = {"list_kernels", "lint", "explain", "suggest", "fix", "profile", "compare", "check", "read_report"}
GEMM = sorted((RECORDINGS / "gemm").glob("*.ncu-rep"))
ALL = {"entries": [report.name for report in GEMM]}
MOST = 8000  # characters: 2,000 tokens of four


def written(folder: Path) -> Path:
    (folder / "t.cu").write_text(TRANSPOSE, encoding="utf-8")
    return folder


def test_tools_and_pages_are_listed_and_pages_can_be_read(tmp_path: Path) -> None:
    async def use(client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert [tool.name for tool in tools if not tool.annotations.read_only_hint] == ["fix"]
        resources = (await client.list_resources()).resources
        for resource in resources:
            page = await client.read_resource(resource.uri)
            assert page.contents[0].text.startswith("# ")

    with_client(tmp_path, use)


def test_an_agent_finds_a_conflict_step_by_step(tmp_path: Path) -> None:
    async def use(client: Any) -> None:
        told: list[float] = []

        async def progress(*report: Any) -> None:
            told.append(report[0])

        result = await client.call_tool("lint", {"files": ["t.cu"]})
        assert result.is_error
        assert 'launch={"problem"' in text(result)
        result = await client.call_tool("lint", {"files": ["t.cu"], "launch": LAUNCH}, progress_callback=progress)
        assert result.structured_content["outcome"] == "fail"
        assert result.structured_content["rows"][0]["place"] == "t.cu:7"
        assert told[-1] == 100
        result = await client.call_tool("explain", {"kernel": "t.cu", "launch": LAUNCH})
        assert "lanes there" in text(result)
        result = await client.call_tool("suggest", {"kernel": "t.cu", "launch": LAUNCH})
        assert "struct Tile" in text(result)
        assert len(text(result)) < MOST

    with_client(written(tmp_path), use)


def test_calls_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    async def use(client: Any) -> None:
        for call, given, why in (
            ("fix", {"file": "t.cu", "kernel": "transpose"}, "not permitted"),
            ("lint", {"files": ["t.cu"], "launch": {"gird": 1}}, "gird"),
            ("lint", {"files": []}, "at least 1 item"),
            ("fix", {"file": 3}, "valid string"),
        ):
            result = await client.call_tool(call, given)
            assert result.is_error
            assert why in text(result)
        schemas = [tool.input_schema for tool in (await client.list_tools()).tools]
        assert all(schema["additionalProperties"] is False for schema in schemas)

    with_client(written(tmp_path), use)


def test_the_next_call_can_be_made_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "ncu-swizzle.toml").write_text(ENTRY, encoding="utf-8")

    async def use(client: Any) -> None:
        called, call, given = [], "list_kernels", {"file": "t.cu"}
        for _ in range(8):
            result = await client.call_tool(call, given)
            assert not result.is_error, text(result)
            called.append(call)
            if (following := result.structured_content.get("next")) is None:
                break
            call, given = following["tool"], following["arguments"]
        assert called == ["list_kernels", "lint", "fix", "fix", "lint"]
        assert result.structured_content["outcome"] == "pass"

    with_client(written(tmp_path), use, limit_s=200)


def test_long_answers_have_pages(tmp_path: Path) -> None:
    async def use(client: Any) -> None:
        first = await client.call_tool("compare", ALL)
        assert len(text(first)) < MOST
        pages = first.structured_content["pages"]
        assert pages > 1
        second = first.structured_content["next"]
        assert (await client.call_tool(second["tool"], second["arguments"])).structured_content["page"] == 2
        last = await client.call_tool("compare", {**ALL, "page": pages})
        assert last.structured_content["page"] == pages
        beyond = await client.call_tool("compare", {**ALL, "page": pages + 1})
        assert beyond.is_error
        assert f"at most {pages}" in text(beyond)

    for report in GEMM:
        (tmp_path / report.name).write_bytes(report.read_bytes())
    with_client(tmp_path, use)


def test_a_cancelled_call_leaves_nothing_running(tmp_path: Path) -> None:
    from tests.support.processes import processes_in

    async def use(client: Any) -> None:
        slow = {"kernel": "kernel2", "launch": {"problem": {"seq": 65536}}}
        task = asyncio.create_task(client.call_tool("profile", slow))
        deadline = time.monotonic() + 20
        while not any("ncu_swizzle.servers" in line for line in processes_in(tmp_path)):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        deadline = time.monotonic() + 20
        while any("ncu_swizzle.servers" in line for line in processes_in(tmp_path)):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        result = await client.call_tool("list_kernels", {})  # and it serves on
        assert not result.is_error

    with_client(tmp_path, use)


def test_only_the_named_folders_are_read_and_nothing_runs(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        written(folder)
    (inside / "k.py").write_text(f"open({str(inside / 'ran')!r}, 'w')\n", encoding="utf-8")

    async def use(client: Any) -> None:
        for call, given in (
            ("lint", {"files": ["../outside/t.cu"], "launch": LAUNCH}),
            ("read_report", {"path": "/etc/hostname"}),
            ("explain", {"kernel": str(outside / "t.cu"), "launch": LAUNCH}),
            ("lint", {"files": ["t.cu"], "launch": {**LAUNCH, "args": ["in=../outside/x.npy"]}}),
        ):
            result = await client.call_tool(call, given)
            assert result.is_error, call
            assert "outside of the folders" in text(result)
        for call, given in (("lint", {"files": ["k.py::fn"]}), ("profile", {"kernel": "kernel2", "engine": "ncu"})):
            result = await client.call_tool(call, given)
            assert result.is_error
            assert "--allow-run" in text(result)
        assert not (inside / "ran").exists()

    with_client(inside, use, "--root", str(inside))


def test_hostile_names_are_data(tmp_path: Path) -> None:
    hostile = "t\x1b[2J\u202e.cu"
    (tmp_path / hostile).write_text(TRANSPOSE, encoding="utf-8")

    async def use(client: Any) -> None:
        result = await client.call_tool("lint", {"files": [hostile], "launch": LAUNCH})
        assert "\x1b" not in text(result)
        assert "\u202e" not in text(result)
        for name in ("--help", "-x", "", "\0", "a" * 5000):
            result = await client.call_tool("explain", {"kernel": name})
            assert result.is_error
            assert "Traceback" not in text(result)

    with_client(tmp_path, use)
