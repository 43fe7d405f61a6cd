"""What the injected library writes becomes launches: which cubin a function is of, and what is left out."""

import json
from pathlib import Path
from typing import Any

from ncu_swizzle.base import cache
from ncu_swizzle.capture import recorded
from ncu_swizzle.capture.launches import Contents, open_launches
from ncu_swizzle.cubin.elf import Cubin
from tests.support import captures

ATTRIBUTES = [1024, 0, 0, 0, 32, 90]  # what the H100's driver says of `columns`


def parameters() -> list[list[Any]]:
    with open_launches(captures.recorded("driver")) as file:
        return [[part.offset, part.value] for part in file.manifest.launches[0].parameters]


def launch(**changes: Any) -> dict[str, Any]:
    return {
        "is": "launch", "kernel": "columns", "module": 0, "graph": 0, "shared": 4356, "grid": [4, 1, 1],
        "block": [32, 1, 1], "cluster": [0, 0, 0], "attributes": ATTRIBUTES, "parameters": parameters(),
        "buffers": [], "variables": [], **changes,
    }  # fmt: skip


MODULE = {"is": "module", "number": 0, "handle": 77, "cubins": 1, "functions": ["columns"]}


def read(folder: Path, *events: dict[str, Any] | str, most: int = 10) -> recorded.Recording:
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    (folder / "12.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return recorded.read(folder, most)


def keep(folder: Path, *cubins: bytes) -> list[dict[str, Any]]:
    for number, content in enumerate(cubins):
        (folder / f"12-c{number}").write_bytes(content)
    return [{"is": "cubin", "number": number, "bytes": len(content)} for number, content in enumerate(cubins)]


def test_a_launch_gets_its_cubin(cubin: bytes, tmp_path: Path) -> None:
    found = read(tmp_path, *keep(tmp_path, cubin), MODULE, launch())
    (one,) = found.launches
    assert (one.kernel, one.cubin, one.grid, one.shared) == ("columns", cache.sha256(cubin), (4, 1, 1), 4356)
    assert one.cluster == ()
    assert found.cubins[one.cubin].read_bytes() == cubin


def other(cubin: bytes) -> bytes:
    """Return a cubin whose kernel has the same name, size and registers, and other instructions."""
    code = Cubin(cubin, "x").section(".text.columns")
    at = cubin.index(code)
    return cubin[:at] + code[::-1] + cubin[at + len(code) :]


def test_two_kernels_of_one_name_are_never_guessed_between(cubin: bytes, tmp_path: Path) -> None:
    found = read(tmp_path, *keep(tmp_path, cubin, other(cubin)), MODULE, launch())
    assert found.launches == []
    assert found.notes == [
        "A launch of columns was left out: 2 cubins that were loaded have a different kernel of that name."
    ]


def test_the_cubin_that_its_loading_tells_or_that_is_there_twice_or_beside_what_is_none_is_no_doubt(
    cubin: bytes, tmp_path: Path
) -> None:
    load = {"is": "load", "module": 77, "from": 1, "to": 2}
    for cubins, loaded in (((other(cubin), cubin), [load]), ((cubin, cubin), []), ((b"\x7fELF", cubin), [])):
        found = read(tmp_path, *keep(tmp_path, *cubins), *loaded, MODULE, launch())
        assert [one.cubin for one in found.launches] == [cache.sha256(cubin)]
        assert len(found.cubins) == 1


def test_a_launch_that_fits_no_cubin_is_left_out_and_named(cubin: bytes, tmp_path: Path) -> None:
    table: list[tuple[dict[str, Any], str]] = [
        ({"module": -1}, "the driver does not name its module"),
        ({"kernel": "other"}, "no cubin that was loaded has it"),
        ({"attributes": [1024, 0, 0, 0, 33, 90]}, "no cubin that was loaded has it"),
        ({"attributes": [1024, 16, 0, 0, 32, 90]}, "no cubin that was loaded has it"),
        ({"parameters": [[0, "00" * 8]]}, "no cubin that was loaded has it"),
    ]
    for changes, why in table:
        found = read(tmp_path, *keep(tmp_path, cubin), MODULE, launch(**changes))
        assert found.launches == []
        assert why in found.notes[0]


def test_contents_are_kept_once_and_incomplete_ones_are_unknown(cubin: bytes, tmp_path: Path) -> None:
    for number, content in enumerate((b"abcd", b"abcd", b"ab")):
        (tmp_path / f"12-m{number}").write_bytes(content)
    buffers = [{"address": 4096 * (n + 1), "bytes": 4, "content": n} for n in range(4)]
    buffers.append({"address": 1 << 20, "bytes": 9, "content": None, "why": "over the limit on memory"})
    found = read(tmp_path, *keep(tmp_path, cubin), MODULE, launch(buffers=buffers))
    contents = [buffer.contents for buffer in found.launches[0].buffers]
    known = Contents(cache.sha256(b"abcd"))
    incomplete = Contents(why="its recording is incomplete")
    assert contents == [known, known, incomplete, incomplete, Contents(why="over the limit on memory")]
    assert list(found.memory) == [known.sha256]


def test_limits_notes_and_problems(cubin: bytes, tmp_path: Path) -> None:
    events = [{"is": "start", "cupti": 1}, *keep(tmp_path, cubin), MODULE, *[launch()] * 5]
    ends = [{"is": "note", "text": "a"}, {"is": "note", "text": "a"}, {"is": "end", "seen": 9, "kept": 5}]
    device = {"is": "device", "name": "G", "capability": [9, 0], "multiprocessors": 132, "driver": 12080}
    cut = '{"is": "launch", "kern'  # of a process that was killed
    found = read(tmp_path, *events, *ends, device, {"is": "problem", "text": "p"}, cut, most=3)
    assert [one.index for one in found.launches] == [0, 1, 2]
    assert (found.notes, found.problems, found.seen, found.followed) == (["a."], ["p"], 9, 1)
    assert (found.machine.gpu, found.machine.compute_capability, found.machine.driver) == ("G", "9.0", "CUDA 12.8")
