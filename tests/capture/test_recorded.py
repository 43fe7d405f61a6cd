"""Launches files: written and read back equal, refused if damaged; what the injected library writes becomes one."""

import dataclasses
import itertools
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import BadFile, DamagedFile, NcuSwizzleError, NotWritable, ProgramFailed
from ncu_swizzle.capture.launches import Contents, Manifest, open_launches, write
from ncu_swizzle.capture.running import Recording
from ncu_swizzle.capture.running import read as read_recorded
from ncu_swizzle.cubin.elf import Cubin
from tests.support.captures import MANIFEST, NAMES, changed, entries, pack, recorded

ATTRIBUTES = [1024, 0, 0, 0, 32, 90]  # what the H100's driver says of `columns`


def parameters() -> list[list[Any]]:
    with open_launches(recorded("driver")) as file:
        return [[part.offset, part.value] for part in file.manifest.launches[0].parameters]


NUMBERS = itertools.count()


def launch(**changes: Any) -> dict[str, Any]:
    return {
        "is": "launch", "seen": next(NUMBERS), "kernel": "columns", "module": 0, "graph": 0, "shared": 4356,
        "grid": [4, 1, 1], "block": [32, 1, 1], "cluster": [0, 0, 0], "attributes": ATTRIBUTES,
        "parameters": parameters(), "buffers": [], "variables": [], **changes,
    }  # fmt: skip


MODULE = {"is": "module", "number": 0, "handle": 77, "cubins": 1, "functions": ["columns"]}


def read(
    folder: Path, *events: dict[str, Any] | str, most: int = 10, counted: tuple[int, int, int, int] = (0, 0, 0, 0)
) -> Recording:
    """Return what is read of one process's events; `counted` are launches seen, unwanted, refused and claimed."""
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    (folder / "12-1.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "counters").write_bytes(struct.pack("=5Q", *counted, 0))
    return read_recorded(folder, most)


def keep(folder: Path, *cubins: bytes) -> list[dict[str, Any]]:
    for number, content in enumerate(cubins):
        (folder / f"12-1-c{number}").write_bytes(content)
    return [
        {"is": "cubin", "number": number, "bytes": len(content), "file": f"12-1-c{number}"}
        for number, content in enumerate(cubins)
    ]


END = {"is": "end"}


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
    assert found.notes[0] == (
        "A launch of columns was left out: 2 cubins that were loaded have a different kernel of that name."
    )


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
        (tmp_path / f"12-1-m{number}").write_bytes(content)
    buffers = [{"address": 4096 * (n + 1), "bytes": 4, "content": f"12-1-m{n}"} for n in range(4)]
    buffers.append({"address": 1 << 20, "bytes": 9, "content": None, "why": "over the limit on memory"})
    found = read(tmp_path, *keep(tmp_path, cubin), MODULE, launch(buffers=buffers))
    contents = [buffer.contents for buffer in found.launches[0].buffers]
    known = Contents(cache.sha256(b"abcd"))
    incomplete = Contents(why="its recording is incomplete")
    assert contents == [known, known, incomplete, incomplete, Contents(why="over the limit on memory")]
    assert list(found.memory) == [known.sha256]


def test_limits_notes_and_problems(cubin: bytes, tmp_path: Path) -> None:
    events = [{"is": "start", "cupti": 1}, *keep(tmp_path, cubin), MODULE, *(launch() for _ in range(3))]
    ends = [{"is": "note", "text": "a"}, {"is": "note", "text": "a"}, END]
    device = {"is": "device", "name": "G", "capability": [9, 0], "multiprocessors": 132, "driver": 12080}
    found = read(tmp_path, *events, *ends, device, {"is": "problem", "text": "p"}, most=3, counted=(9, 2, 0, 3))
    assert [one.index for one in found.launches] == [0, 1, 2]
    more = "Only the first 3 launches were captured; the program launched 4 more. -c N captures more, -k NAME selects"
    assert (found.notes, found.problems, found.followed) == (["a.", f"{more} others."], ["p"], 1)
    assert (found.machine.gpu, found.machine.compute_capability, found.machine.driver) == ("G", "9.0", "CUDA 12.8")


def test_a_bad_event_is_noted_and_the_rest_is_kept(cubin: bytes, tmp_path: Path) -> None:
    (tmp_path / "13-1-m0").write_bytes(b"abcd")  # of another process
    (tmp_path / "secret").write_bytes(b"abcd")
    part = {"address": 4096, "bytes": 4}
    bad: dict[str, Any] = {
        "its record is damaged: '13-1-m0' is not a file of this process": {"buffers": [{**part, "content": "13-1-m0"}]},
        "its record is damaged: '../secret' is not": {"buffers": [{**part, "content": "../secret"}]},
        "its record is damaged: 0 is not": {"variables": [{"name": "v", "bytes": 4, "content": 0}]},
        "left out: grid is 0": {"grid": [4, 0, 1]},
        "block": {"block": [1 << 40, 1, 1]},
        "shared": {"shared": 1 << 30},
        "its parameters could not be read": {"parameters": [[0, None]]},
    }
    for why, changes in bad.items():
        found = read(tmp_path, *keep(tmp_path, cubin), MODULE, launch(**changes), launch(), END, counted=(2, 0, 0, 2))
        assert len(found.launches) == 1
        (note,) = found.notes
        assert note.startswith("A launch of columns was left out: "), why
        assert why in note
    for line in ('{"is": "launch", "kern', "[]", "{}", '{"is": "launch"}', "\0" * 9, "[" * 100_000, '{"is": "dry"}'):
        found = read(tmp_path, *keep(tmp_path, cubin), MODULE, line, launch(), END, counted=(2, 0, 0, 2))
        lost = "A launch was lost: the record is missing or incomplete (a full disk, or a kill)."
        assert (len(found.launches), found.notes) == (
            1,
            [lost, "A line of the recording is damaged and was left out."],
        )


def test_what_a_program_does_to_the_recording(cubin: bytes, tmp_path: Path) -> None:
    (tmp_path / "its-own.jsonl").write_text("{}", encoding="utf-8")
    assert len(read(tmp_path, *keep(tmp_path, cubin), MODULE, launch(), END).launches) == 1
    for destroy in (lambda file: file.write_bytes(b"x"), Path.unlink):
        destroy(tmp_path / "counters")
        with pytest.raises(ProgramFailed, match="removed or changed the files"):
            read_recorded(tmp_path, 10)


def test_launches_that_the_driver_refused_are_taken_back_and_a_record_without_an_end_is_noted(
    cubin: bytes, tmp_path: Path
) -> None:
    launches = [launch(), launch(), launch()]
    first = launches[0]["seen"]
    refused = {"is": "refused", "from": first + 1, "to": first + 2, "error": "CUDA_ERROR_INVALID_VALUE", "kernel": ""}
    found = read(tmp_path, *keep(tmp_path, cubin), MODULE, *launches, refused, counted=(3, 0, 1, 2))
    assert [one.index for one in found.launches] == [0, 1]
    assert found.notes == [
        "A launch was refused by CUDA: columns (CUDA_ERROR_INVALID_VALUE).",
        "A process ended by _exit, exec or a signal: more may have been launched.",
    ]


def manifest_of(file: Path) -> Manifest:
    with open_launches(file) as opened:
        return opened.manifest


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_file_is_written_back_equal(name: str, tmp_path: Path) -> None:
    with open_launches(recorded(name)) as file:
        manifest = file.manifest
        cubins = {sha256: file.cubin(sha256) for sha256 in manifest.cubins}
        memory = {}
        for sha256 in manifest.memory:
            memory[sha256] = tmp_path / sha256
            memory[sha256].write_bytes(file.memory(sha256))
    again = tmp_path / "again.launches"
    write(again, manifest, cubins, memory)
    assert manifest_of(again) == manifest
    assert entries(again).keys() == entries(recorded(name)).keys()
    write(tmp_path / "third.launches", manifest, cubins, memory)
    assert (tmp_path / "third.launches").read_bytes() == again.read_bytes()


def test_it_can_be_read_without_us() -> None:
    """What docs/launches.md says, by zipfile and json alone."""
    content = entries(recorded("counting"))
    manifest = json.loads(content[MANIFEST])
    sealed = manifest.pop("digest")
    assert sealed == "sha256:" + cache.sha256(json.dumps(manifest, sort_keys=True, ensure_ascii=False).encode())
    first = manifest["launches"][0]
    assert (first["kernel"], first["grid"], first["block"]) == ("_Z5count4Task", [4, 1, 1], [256, 1, 1])
    assert cache.sha256(content[f"cubins/{first['cubin']}.cubin"]) == first["cubin"]
    values = next(buffer for buffer in first["buffers"] if buffer["bytes"] == 1 << 14)
    image = content[f"memory/{values['contents']['sha256']}.bin"]
    state, expected = 7, bytearray()
    for _ in range(1 << 14):
        state = (state * 1664525 + 1013904223) % (1 << 32)
        expected.append(state >> 24)
    assert image == bytes(expected), "the keys that counting.cu draws"
    pointer = int.from_bytes(bytes.fromhex(first["parameters"][0]["value"])[:8], "little")
    assert pointer == values["address"]
    assert manifest["program"] == {"name": "counting", "arguments": []}
    assert "H100" in manifest["machine"]["gpu"]


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.launches"
    for start in (b"", b"PK", b"\x7fELF" + bytes(100), b"{}"):
        file.write_bytes(start)
        with pytest.raises(BadFile, match="is not a launches file"):
            manifest_of(file)
    with pytest.raises(BadFile, match="does not exist"):
        manifest_of(tmp_path / "missing.launches")
    with pytest.raises(BadFile):
        manifest_of(tmp_path)
    with pytest.raises(BadFile, match=r"it has no manifest\.json"):
        manifest_of(pack(file, {"word/document.xml": b"<x/>"}))
    with pytest.raises(BadFile, match="has schema 3; this ncu-swizzle reads schema 2"):
        manifest_of(changed(recorded("driver"), file, lambda manifest: manifest.update(schema=3)))


def test_entries_other_than_the_manifest_s_are_refused(tmp_path: Path) -> None:
    whole = entries(recorded("counting"))
    memory = next(name for name in whole if name.startswith("memory/"))
    for damaged, said in (
        ({name: data for name, data in whole.items() if name != memory}, "is damaged"),
        ({**whole, "../../.bashrc": b"rm -rf"}, "is damaged"),
        ({**whole, memory: whole[memory] + bytes(1 << 24)}, "is damaged"),
        ({**whole, MANIFEST: whole[MANIFEST].replace(b"permute", b"permuto")}, "wrong digest"),
    ):
        with pytest.raises(DamagedFile, match=said):
            manifest_of(pack(tmp_path / "x.launches", damaged))
    content = entries(recorded("driver"))
    cubin = next(name for name in content if name.startswith("cubins/"))
    file = pack(tmp_path / "exchanged.launches", {**content, cubin: content[cubin][:-1] + b"?"})
    with open_launches(file) as opened, pytest.raises(DamagedFile, match="other contents"):
        opened.cubin(next(iter(opened.manifest.cubins)))
    twice = pack(tmp_path / "twice.launches", content)
    with zipfile.ZipFile(twice, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(cubin, content[cubin])
    with pytest.raises(DamagedFile, match="comes twice"):
        manifest_of(twice)


def _first(manifest: dict[str, Any]) -> Any:
    return manifest["launches"][0]


CHANGES: dict[str, Any] = {
    "a grid of zero": lambda m: _first(m).update(grid=[0, 1, 1]),
    "a grid of texts": lambda m: _first(m).update(grid=["a", 1, 1]),
    "four sizes": lambda m: _first(m).update(block=[1, 1, 1, 1]),
    "an unknown field": lambda m: _first(m).update(surprise=1),
    "no field": lambda m: _first(m).pop("shared"),
    "too much shared memory": lambda m: _first(m).update(shared=1 << 40),
    "no hex": lambda m: _first(m)["parameters"][0].update(value="zz"),
    "overlapping parameters": lambda m: _first(m)["parameters"][1].update(offset=1),
    "an unlisted cubin": lambda m: _first(m).update(cubin="0" * 64),
    "a path for a cubin": lambda m: m["cubins"].update({"../../etc/passwd": 1}),
    "a huge image": lambda m: m["memory"].update({"0" * 64: 1 << 50}),
    "overlapping buffers": lambda m: _first(m)["buffers"].append({**_first(m)["buffers"][0]}),
    "unlisted contents": lambda m: _first(m)["buffers"][0]["contents"].update(sha256="1" * 64),
    "a buffer beyond 64 bits": lambda m: _first(m)["buffers"][0].update(address=(1 << 64) - 1),
    "another origin": lambda m: m.update(origin="moon"),
    "launches that are none": lambda m: m.update(launches=7),
    "no program": lambda m: m.update(program=None),
    "a nameless kernel": lambda m: _first(m).update(kernel=""),
    "a cluster of two sizes": lambda m: _first(m).update(cluster=[2, 1]),
    "notes that are numbers": lambda m: m.update(notes=[1]),
    "a machine that is a list": lambda m: m.update(machine=[]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_sealed_manifest_with_values_that_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DamagedFile):
        manifest_of(changed(recorded("driver"), tmp_path / "x.launches", CHANGES[name]))


@pytest.mark.long
def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """A manifest of 1 GiB of zeros takes 1 MB in the zip, and no more than its limit in memory."""
    file = tmp_path / "x.launches"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(MANIFEST, "w") as entry:
        for _ in range(1 << 6):
            entry.write(bytes(1 << 22))
    with pytest.raises(DamagedFile, match="has more than 16,777,216 bytes"):
        manifest_of(file)


def test_a_manifest_of_many_values_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []
    loads = json.loads
    monkeypatch.setattr(json, "loads", lambda content: parsed.append(len(content)) or loads(content))
    values, deep = "has more than 1,048,576 values", "is nested more than 16 deep"
    for text, why in (
        ("[" + "[]," * 1_000_000 + "[]]", values),
        ("[" + '{"a":0},' * 600_000 + "0]", values),
        ("[" + "1," * (1 << 20) + "1]", values),
        ("[" * 17 + "]" * 17, deep),
        ('{"a":' * 500_000 + "0" + "}" * 500_000, deep),
    ):
        with pytest.raises(DamagedFile, match=why):
            manifest_of(pack(tmp_path / "x.launches", {MANIFEST: text.encode()}))
    assert parsed == []
    letters = '["' + "[,{" * 1_000_000 + '\\"["]'  # in a text they are letters
    with pytest.raises(DamagedFile, match="has no schema"):
        manifest_of(pack(tmp_path / "x.launches", {MANIFEST: letters.encode()}))
    assert parsed == [len(letters)]


@pytest.mark.long
def test_what_cannot_be_written_or_read_again_leaves_nothing(tmp_path: Path) -> None:
    manifest = manifest_of(recorded("driver"))
    many = dataclasses.replace(manifest, launches=manifest.launches * 7000)
    with pytest.raises(NotWritable, match=r"21,000 launches take .* the limit"):
        write(tmp_path / "x.launches", many, {}, {})
    with pytest.raises((NcuSwizzleError, KeyError)):
        write(tmp_path / "x.launches", dataclasses.replace(manifest, memory={"0" * 64: 1}), {}, {})
    assert list(tmp_path.iterdir()) == []


def test_unknown_contents_say_why() -> None:
    launches = manifest_of(recorded("graph")).launches
    assert all(contents.sha256 for contents in launches[0].contents)
    assert {contents for launch in launches[1:] for contents in launch.contents} == {
        Contents(why="earlier nodes of its CUDA graph may write it")
    }
