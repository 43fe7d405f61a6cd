"""``ncu-swizzle lsp`` with a real client; skipped without pygls or CUDA's compiler."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="pygls is not installed: pip install 'ncu-swizzle[servers]'")

from lsprotocol import types

from tests.support.language_client import LIMIT_S, EditorClient, session
from tests.support.marks import NEEDS_ALL, PYTHON, program
from tests.support.places import DATA
from tests.support.process import environment
from tests.support.processes import processes_in, wait_until
from tests.support.repositories import DESCRIBED, TURN

AT = {"line": 3, "character": 3}
FREE = TURN.replace("[32][32]", "[32][33]")
# Addresses that follow no simple rule, so that every iteration is emulated.
CHAIN = "unsigned k = r; for (int i = 0; i < 1 << 22; ++i) { k = k * 1664525u + 1013904223u; tile[k >> 27][c] += 1.f; }"
ENDLESS = TURN.replace("__syncthreads();", f"{CHAIN} __syncthreads();")


async def running(client: EditorClient) -> None:
    """Wait until an emulation that begins now tells how far it is."""
    client.progress.clear()
    async with asyncio.timeout(LIMIT_S):
        while not any("instructions" in str(params.value) for params in client.progress):
            await asyncio.sleep(0.1)


def calls(workspace: Path) -> list[str]:
    return [command for command in processes_in(workspace) if "ncu_swizzle.servers" in command]


@pytest.mark.long
@NEEDS_ALL
def test_a_conflict_shows_when_the_source_is_opened_and_goes_when_it_is_fixed(tmp_path: Path) -> None:
    """In a folder and a file with names, lines and columns beyond ASCII."""
    workspace, name = tmp_path / "wörk späce 日本", "türn.cu"
    workspace.mkdir()
    text = TURN.replace(" = x[", " /* 😀 */ = x[").replace("\n", " // \f 😀\r\n", 2)
    project = DESCRIBED.replace("turn.cu", name)
    (workspace / name).write_bytes(text.encode())
    (workspace / "ncu-swizzle.toml").write_text(project, "utf-8")

    async def edit(client: EditorClient) -> None:
        uri = client.open(name)
        (found,) = await client.diagnostics()
        assert (found.range.start.line, found.range.start.character) == (3, 2)
        line = text.split("\n")[3].rstrip("\r")
        assert found.range.end.character == len(line.encode("utf-16-le")) // 2
        assert found.severity == types.DiagnosticSeverity.Warning
        assert "turn, STS: 1,024 wavefronts, 32 ideal: degree 32" in found.message
        assert "Swizzle<5,0,5>" in found.message
        shown = await client.hover(uri, 4)
        assert "32 ways; bank 0 serves lanes 0, 1, 2, 3, 4, 5, 6, 7 and 24 more" in shown
        assert "1 ways" in shown.rpartition("\n")[2]
        assert "**turn**, LDS: 32 wavefronts, 32 ideal, degree 1" in await client.hover(uri, 6)
        assert await client.hover(uri, 2) == ""
        steps = len(client.progress)
        client.close(uri)
        assert await client.diagnostics() == []
        client.open(name)
        assert len(await client.diagnostics()) == 1
        assert len(client.progress) == steps, "what is known needs no process"
        client.close(uri)
        assert await client.diagnostics() == []
        (workspace / "ncu-swizzle.toml").write_text(project.replace("[32, 32]", "[32, 16]"), "utf-8")
        client.open(name)
        assert "512 wavefronts, 16 ideal" in (await client.diagnostics())[0].message
        client.save(name, FREE)
        assert await client.diagnostics() == []

    client = session(workspace, edit)
    kinds = [getattr(params.value, "kind", None) or params.value["kind"] for params in client.progress]
    assert kinds[0] == "begin"
    assert kinds.count("begin") == kinds.count("end") == 4  # opened, explained, described otherwise, fixed
    assert client.messages == []


MEMORY = """
[kernel.turn]
source = "memory.cu"
grid = [4, 4]
block = [32, 8]
args = ["x=float32[16384]:random", "y=float32[16384]:out", "n=int32:128"]
"""


@NEEDS_ALL
@pytest.mark.long
def test_a_line_that_is_not_coalesced_has_its_code_and_what_would_be_better(workspace: Path) -> None:
    text = (DATA / "own" / "memory.cu").read_text(encoding="utf-8")
    (workspace / "memory.cu").write_text(text.partition("// An array")[0], encoding="utf-8")
    (workspace / "ncu-swizzle.toml").write_text(MEMORY, "utf-8")

    async def look(client: EditorClient) -> None:
        client.open("memory.cu")
        (found,) = [each for each in await client.diagnostics() if str(each.code).startswith("MEM")]
        assert (found.code, found.range.start.line, found.severity) == ("MEM001", 6, types.DiagnosticSeverity.Warning)
        assert "rules/MEM001" in found.code_description.href
        assert "turn, STG: 32 sectors per request, ideally 4: 458,752 excessive bytes" in found.message

    session(workspace, look)


def test_an_untrusted_workspace_and_a_file_outside_of_it_run_nothing(workspace: Path) -> None:
    async def look(client: EditorClient) -> None:
        uri = client.open("turn.cu")
        assert await client.hover(uri, 4) == ""
        assert calls(workspace) == []
        assert client.published.empty()

    async def look_outside(client: EditorClient) -> None:
        for name in ("../turn.cu", "link.cu"):
            assert await client.hover(client.open(name), 4) == ""
        assert client.published.empty()

    assert session(workspace, look, initialization={"trusted": False}).progress == []
    (workspace.parent / "turn.cu").write_text(TURN)
    (workspace / "link.cu").symlink_to(workspace.parent / "turn.cu")
    assert session(workspace, look_outside).progress == []


@NEEDS_ALL
@pytest.mark.long
def test_one_emulation_runs_at_a_time_and_ends_when_it_is_overtaken_cancelled_or_left(workspace: Path) -> None:
    (workspace / "other.cu").write_text(FREE.replace("turn", "other"))
    (workspace / "turn.cu").write_text(ENDLESS)
    (workspace / "ncu-swizzle.toml").write_text(DESCRIBED + DESCRIBED.replace("turn", "other"))

    async def edit(client: EditorClient) -> None:
        client.open("turn.cu")
        await running(client)
        client.save("turn.cu", FREE)
        assert await client.diagnostics() == []
        assert client.published.empty()  # nothing is published of the older version
        client.save("turn.cu", ENDLESS, version=3)
        await running(client)
        client.open("other.cu")
        await asyncio.sleep(1)
        assert len(calls(workspace)) == 1
        cancelled = types.WorkDoneProgressCancelParams(client.progress[-1].token)
        client.client.window_work_done_progress_cancel(cancelled)
        assert await client.diagnostics() == []  # of the other
        assert calls(workspace) == []
        client.save("turn.cu", f"{ENDLESS}\n", version=4)
        await running(client)

    session(workspace, edit)
    assert wait_until(lambda: not calls(workspace)), "the process that ends them needs a moment"


@NEEDS_ALL
@pytest.mark.long
def test_a_hostile_workspace_runs_nothing_of_its_own(workspace: Path) -> None:
    marker = workspace / "marker"
    leaves_a_mark = PYTHON.format(marker=str(marker))
    evil = program(workspace / "evil", marker, 'exec gcc "$@"')
    for module in ("json", "numpy", "pygls", "asyncio", "ncu_swizzle", "sitecustomize"):
        (workspace / f"{module}.py").write_text(leaves_a_mark)
    (workspace / "kernels.py").write_text(f"import triton\n{leaves_a_mark}def add(x): pass\n")
    declared = '[kernel.add]\nsource = "kernels.py"\nentry = "add"\ngrid = 1\nargs = ["x=float32[32]:random"]\n'
    (workspace / "ncu-swizzle.toml").write_text(f'{DESCRIBED}nvcc = ["-ccbin", "{evil}"]\n{declared}')

    async def look(client: EditorClient) -> None:
        client.open("turn.cu")
        (found,) = await client.diagnostics()
        assert "needs your trust" in found.message
        assert "--trust" not in found.message  # which this server does not have
        (workspace / "ncu-swizzle.toml").write_text(DESCRIBED + declared)
        client.save("turn.cu", TURN)
        assert len(await client.diagnostics()) == 1
        client.open("kernels.py")
        (found,) = await client.diagnostics()
        assert "imports that file" in found.message

    session(workspace, look)
    assert not marker.exists()


@NEEDS_ALL
@pytest.mark.long
def test_the_code_action_applies_a_fix_that_is_proved(workspace: Path) -> None:

    async def fix(client: EditorClient) -> None:
        uri = client.open("turn.cu")
        (found,) = await client.diagnostics()
        (title,) = await client.fixed(uri, found)
        assert "turn.cu" in title
        ((where, edits),) = (client.edits[0].edit.changes or {}).items()
        assert where == uri
        lines = TURN.splitlines(keepends=True)
        for edit in reversed(edits):
            lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
        client.save("turn.cu", "".join(lines))
        assert await client.diagnostics() == []

    client = session(workspace, fix)
    assert "1 of 1 shared arrays that conflict are fixed, with proof" in client.messages[0]
    assert (workspace / "turn.cu").read_text() != TURN


@NEEDS_ALL
@pytest.mark.long
def test_a_header_shows_the_conflict_of_the_kernel_that_includes_it_and_is_what_a_fix_changes(workspace: Path) -> None:
    body = f"#pragma once\n__device__ void body(const float* x, float* y) {{\n{TURN.partition(chr(10))[2]}"
    (workspace / "body.cuh").write_text(body)
    (workspace / "turn.cu").write_text(
        '#include "body.cuh"\n__global__ void turn(const float* x, float* y) { body(x, y); }\n'
    )

    async def fix(client: EditorClient) -> None:
        uri = client.open("body.cuh")
        (found,) = await client.diagnostics()
        assert (found.range.start.line, found.message[:9]) == (4, "turn, STS")
        client.open("turn.cu")
        assert await client.diagnostics() == []
        (title,) = await client.fixed(uri, found)
        assert "turn.cu" in title
        assert list(client.edits[0].edit.changes or {}) == [uri]
        client.change(uri, "// new", version=3)
        await client.fixed(uri, found)
        assert len(client.edits) == 1

    client = session(workspace, fix)
    assert "body.cuh is not as it was saved" in client.messages[-1]


@NEEDS_ALL
@pytest.mark.long
def test_what_cannot_be_proved_changes_nothing(workspace: Path) -> None:
    aliased = TURN.replace("tile[c][r] =", "float* p = &tile[0][0] + c * 32; p[r] =")

    async def fix(client: EditorClient) -> None:
        (workspace / "turn.cu").write_text(aliased)
        uri = client.open("turn.cu")
        (found, *_) = await client.diagnostics()
        await client.fixed(uri, found)
        client.save("turn.cu", aliased + "\n")
        await client.diagnostics()
        client.change(uri, TURN, version=3)
        await client.fixed(uri, found)

    client = session(workspace, fix)
    assert "not as it was saved" in client.messages[-1]
    assert (workspace / "turn.cu").read_text() == aliased + "\n"


def framed(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def request(number: int, method: str, **params: Any) -> bytes:
    return framed(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode())


DAMAGED = (
    framed(b"{nonsense"), framed(b"\xff\xfe{}"), framed(b"[1, 2]"), framed(b"7"), framed(b"[" * 100_000),
    framed(b'{"jsonrpc": "2.0", "id": 0, "method": "x", "params": {"a": %s}}' % (b"9" * 5000)),
    framed(b'{"jsonrpc": "2.0", "id": 0, "method": "textDocument/hover", "params": 7}'),
    framed(b'{"jsonrpc": "2.0", "id": 0, "method": "a\\u0000"}'),
    b"Content-Length: 99999999999999\r\n\r\n{}", b"Content-Length: -5\r\n\r\n{}", b"Content-Length: x\r\n\r\n{}",
    b"Other: 1\r\n\r\n{}", b"X" * 300_000 + b"\r\n\r\n",
)  # fmt: skip


@pytest.mark.long
def test_damaged_messages_and_a_thousand_requests_are_survived(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(TURN, encoding="utf-8")
    document = {"uri": (tmp_path / "k.cu").as_uri()}
    sent = [request(1, "initialize", processId=None, rootUri=tmp_path.as_uri(), capabilities={})]
    for number, damaged in enumerate(DAMAGED):
        sent += [damaged, request(100 + number, "textDocument/hover", textDocument=document, position=AT)]
    sent += [request(n, "textDocument/hover", textDocument=document, position=AT) for n in range(1000, 2000)]
    sent += [request(2, "shutdown"), framed(b'{"jsonrpc": "2.0", "method": "exit"}')]
    command = [sys.executable, "-P", "-m", "ncu_swizzle", "serve", "lsp"]
    done = subprocess.run(command, input=b"".join(sent), capture_output=True, check=False, env=environment())
    answered = {int(number) for number in re.findall(rb'"id": (\d+)', done.stdout)}
    assert answered >= {1, 2, *range(100, 100 + len(DAMAGED)), *range(1000, 2000)}
    assert done.returncode == 0
    notes = done.stderr.decode().splitlines()
    assert len(notes) < 2 * len(DAMAGED)
    assert all(note.startswith("note: ") for note in notes), notes
