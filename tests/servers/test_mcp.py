"""The MCP server as a client of the SDK sees it, started as a user's agent starts it."""

import asyncio
import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base.errors import TimeLimit
from ncu_swizzle.servers.answer import Folders, Service
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import ENTRY, LAUNCH, TRANSPOSE
from tests.support.places import RECORDINGS, ROOT
from tests.support.processes import processes_in

NEEDS_MCP = pytest.mark.skipif(not find_spec("mcp"), reason="mcp is not installed: pip install 'ncu-swizzle[servers]'")
pytestmark = [NEEDS_MCP, NEEDS_ALL]
TOOLS = {
    "list_kernels", "lint", "explain", "suggest", "fix", "profile", "compare", "check", "judge", "read_report",
}  # fmt: skip
GEMM = sorted((RECORDINGS / "gemm").glob("*.ncu-rep"))
MOST = 8000  # characters: 2,000 tokens of four


def with_client(folder: Path, use: Callable[[Any], Awaitable[None]], *options: str, limit_s: float = 110) -> None:
    """Start the server in a folder, as an agent does, and use a client that is connected to it."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = ["-m", "ncu_swizzle", "serve", "mcp", *options]

    async def connected() -> None:
        server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=str(folder))
        async with Client(server) as client:
            await use(client)

    asyncio.run(asyncio.wait_for(connected(), limit_s))


def text(result: Any) -> str:
    return str(result.content[0].text)


@pytest.mark.long
def test_tools_are_listed_wrong_calls_refused_nothing_else_is_read_or_run_and_answers_have_pages(
    tmp_path: Path,
) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "t.cu").write_text(TRANSPOSE, encoding="utf-8")
    for report in GEMM:
        shutil.copy(report, inside)
    (inside / "k.py").write_text(f"open({str(inside / 'ran')!r}, 'w')\n", encoding="utf-8")
    refused: list[tuple[str, dict[str, Any], str]] = [
        ("fix", {"file": "t.cu", "kernel": "transpose"}, "not permitted"),
        ("lint", {"files": ["t.cu"], "launch": {"gird": 1}}, "gird"),
        ("lint", {"files": []}, "at least 1 item"),
        ("fix", {"file": 3}, "valid string"),
        ("lint", {"files": ["../outside/t.cu"], "launch": LAUNCH}, "outside of the folders"),
        ("lint", {"files": ["k.py::fn"]}, "--allow-run"),
        ("explain", {"kernel": "t\x1b[2J\u202e.cu" * 50}, ""),
    ]

    async def use(client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert [tool.name for tool in tools if not tool.annotations.read_only_hint] == ["fix"]
        assert all(tool.input_schema["additionalProperties"] is False for tool in tools)
        for resource in (await client.list_resources()).resources:
            page = await client.read_resource(resource.uri)
            assert page.contents[0].text.startswith("# ")
        for tool, arguments, why in refused:
            result = await client.call_tool(tool, arguments)
            assert result.is_error, arguments
            assert why in text(result)
            assert not any(word in text(result) for word in ("Traceback", "\x1b", "\u202e"))
        compared = {"entries": [report.name for report in GEMM]}
        first = await client.call_tool("compare", compared)
        assert len(text(first)) < MOST
        pages = first.structured_content["pages"]
        assert pages > 1
        assert first.structured_content["next"]["arguments"]["page"] == 2
        beyond = await client.call_tool("compare", {**compared, "page": pages + 1})
        assert beyond.is_error
        assert f"at most {pages}" in text(beyond)

    with_client(inside, use, "--root", str(inside))
    assert not (inside / "ran").exists()


@pytest.mark.long
def test_an_agent_finds_and_fixes_a_conflict_step_by_step(tmp_path: Path) -> None:
    """First by a launch that the server asks for, then in a project that describes it: each next call as it is."""
    (tmp_path / "t.cu").write_text(TRANSPOSE, encoding="utf-8")
    told: list[float] = []

    async def progress(*report: Any) -> None:
        told.append(report[0])

    async def follow(client: Any, tool: str, arguments: dict[str, Any]) -> list[str]:
        called = []
        for _ in range(8):
            result = await client.call_tool(tool, arguments, progress_callback=progress)
            assert not result.is_error, text(result)
            assert len(text(result)) < MOST
            called.append(tool)
            if (following := result.structured_content.get("next")) is None:
                break
            tool, arguments = following["tool"], following["arguments"]
        assert result.structured_content["outcome"] == "pass"
        return called

    async def use(client: Any) -> None:
        lacking = await client.call_tool("profile", {"kernel": "t.cu"})
        assert lacking.is_error
        assert 'list_kernels {"file": "t.cu"}' in text(lacking)
        at_all = await client.call_tool("lint", {"files": ["t.cu"]})
        assert at_all.structured_content["outcome"] == "inconclusive"
        linted = {"files": ["t.cu"], "launch": LAUNCH}
        assert await follow(client, "lint", linted) == ["lint", "fix", "fix", "lint"]
        assert told.count(100) >= 3
        assert (tmp_path / "t.cu").read_text(encoding="utf-8") != TRANSPOSE
        (tmp_path / "t.cu").write_text(TRANSPOSE, encoding="utf-8")
        (tmp_path / "ncu-swizzle.toml").write_text(ENTRY, encoding="utf-8")
        listed = await client.call_tool("list_kernels", {"file": "t.cu"})
        assert listed.structured_content["next"]["tool"] == "lint"

    with_client(tmp_path, use, limit_s=200)


@pytest.mark.long
def test_an_agent_has_its_change_judged(tmp_path: Path) -> None:
    wrong = TRANSPOSE.replace("[threadIdx.x][", "[threadIdx.x ^ 1][")
    assert wrong != TRANSPOSE
    for name, source in (("before", TRANSPOSE), ("same", TRANSPOSE), ("wrong", wrong)):
        (tmp_path / f"{name}.cu").write_text(source, encoding="utf-8")

    async def use(client: Any) -> None:
        for name, outcome in (("same", "same"), ("wrong", "refused")):
            pair = {"before": "before.cu", "after": f"{name}.cu", "launch": LAUNCH}
            result = await client.call_tool("judge", pair)
            assert not result.is_error, text(result)
            assert result.structured_content["outcome"] == outcome

    with_client(tmp_path, use, limit_s=400)


@pytest.mark.long
def test_a_cancelled_call_leaves_nothing_running(tmp_path: Path) -> None:
    async def until_running(running: bool) -> None:
        async with asyncio.timeout(60):
            while running != any("ncu_swizzle.servers" in line for line in processes_in(tmp_path)):
                await asyncio.sleep(0.05)

    async def use(client: Any) -> None:
        slow = {"kernel": "kernel2", "launch": {"problem": {"seq": 65536}}}
        task = asyncio.create_task(client.call_tool("profile", slow))
        await until_running(True)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_running(False)
        result = await client.call_tool("list_kernels", {})  # and it serves on
        assert not result.is_error

    with_client(tmp_path, use)


GREETING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
MESSAGES = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": GREETING},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_kernels", "arguments": {}}},
)


@pytest.mark.long
@pytest.mark.parametrize("how", ["pipe", "terminal", "full disk"])
def test_a_client_that_is_gone_leaves_no_traceback(tmp_path: Path, how: str) -> None:
    ours, its = pty.openpty() if how == "terminal" else os.pipe()
    out = os.open("/dev/full", os.O_WRONLY) if how == "full disk" else its
    command = [sys.executable, "-m", "ncu_swizzle", "serve", "mcp"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE, env=env, cwd=tmp_path
    ) as server:
        for handle in {ours, its, out}:
            os.close(handle)
        said = server.communicate("".join(f"{json.dumps(each)}\n" for each in MESSAGES).encode())[1].decode()
    assert not list(tmp_path.iterdir()), "no file with a traceback"
    expected = (2, "error: cannot write the output: No space left on device\n") if how == "full disk" else (0, "")
    assert (server.returncode, said.partition("  try")[0]) == expected


@pytest.mark.long
def test_a_call_has_a_limit_and_a_file_is_linted_once(tmp_path: Path) -> None:
    (tmp_path / "t.cu").write_text(TRANSPOSE, encoding="utf-8")
    huge = {**LAUNCH, "grid": "2147483647,65535,65535"}

    async def use(client: Any) -> None:
        many = await client.call_tool("lint", {"files": ["t.cu"] * 5000, "launch": LAUNCH})
        assert not many.is_error, text(many)
        started = await client.call_tool("lint", {"files": ["t.cu"], "launch": huge})
        assert started.content

    with_client(tmp_path, use, "--timeout", "60")


def test_a_call_that_takes_longer_is_ended(tmp_path: Path) -> None:
    service = Service(Folders((tmp_path,)), timeout_s=0.05)
    with pytest.raises(TimeLimit, match=r"list_kernels took longer than 0\.05 s") as error:
        service.call("list_kernels", {})
    assert "--timeout" in error.value.hint
