"""The published JSON Schemas, held against what the commands write."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import RECORDINGS, ROOT
from tests.support.process import run

jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")

RECORDED = ("--engine", "recorded")
LAYOUT = "(8,8):(1,8)"
OUTPUTS: dict[str, list[tuple[str, ...]]] = {
    "comparison": [
        ("profile", "kernel2", *RECORDED, "--json", "-"),
        ("report", "transpose-plain", "transpose-xor", *RECORDED, "--json", "-"),
        ("report", str(RECORDINGS / "transpose" / "transpose-xor.ncu-rep"), "--json", "-"),
    ],
    "verdict": [
        ("check", "kernel1", *RECORDED, "--allow-recorded", "--config", "none", "--baseline", "none", "--json", "-"),
        ("check", "kernel2", *RECORDED, "--allow-recorded", "--config", "none", "--baseline", "none", "--json", "-"),
    ],
    "explain": [
        ("explain", LAYOUT, "--swizzle", "3,2,3", "--json", "-"),
        ("explain", LAYOUT, "--access", "none", "--json", "-"),
        ("explain", LAYOUT, "--show", "places", "--json", "-"),
        ("explain", LAYOUT, "--show", "bits", "--json", "-"),
        ("explain", LAYOUT, "--show", "phases", "--json", "-"),
        ("explain", "box(8,64)", "--swizzle", "128B", "--json", "-"),
        ("explain", "kernel2", "--json", "-"),
        ("explain", "tid * 128", "--op", "ld.shared.v4.b32", "--json", "-"),
        ("explain", "(64,64):(64,1)", "--elem", "2", "--write", "cp.async", "--read", "ldmatrix", "--json", "-"),
    ],
    "doctor": [("doctor", "--json", "-")],
}


def broken(value: Any) -> Any:
    """Return the output with one field renamed."""
    if isinstance(value, list):
        return [broken(value[0]), *value[1:]]
    name = next(iter(value))
    return {f"{name}_": value[name], **{key: part for key, part in value.items() if key != name}}


@pytest.mark.parametrize(("name", "arguments"), [(n, a) for n, each in OUTPUTS.items() for a in each])
def test_what_commands_print_fits_its_schema(
    name: str, arguments: tuple[str, ...], validate: Callable[[str, Any], None]
) -> None:
    printed = json.loads(run(*arguments).stdout)
    validate(name, printed)
    with pytest.raises(jsonschema.ValidationError):
        validate(name, broken(printed))


def test_the_files_of_a_run_fit_their_schemas(tmp_path: Path, validate: Callable[[str, Any], None]) -> None:
    folder = tmp_path / "run"
    assert run("profile", "kernel2", *RECORDED, "-o", str(folder)).returncode == 0
    validate("run", json.loads((folder / "run.json").read_text(encoding="utf-8")))
    for name in ("kernel1", "kernel2", "reference-attention"):
        saved = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        validate("profile", saved)
        saved["machine"]["sm_count"] = -1
        with pytest.raises(jsonschema.ValidationError):
            validate("profile", saved)


def test_every_schema_is_a_schema_and_is_described(schemas: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "reference" / "schemas.md").read_text(encoding="utf-8")
    for name, schema in schemas.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert f"(../schemas/{name}.json)" in page
