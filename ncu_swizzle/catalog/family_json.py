"""A family as a JSON file, which passes a user's to the launching program."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from ncu_swizzle.catalog.family import Argument, Family, Kernel, Parameter
from ncu_swizzle.errors import BadFile
from ncu_swizzle.files import read_bytes, write_json


def write(family: Family, file: Path) -> None:
    """Write the family to a file."""
    write_json(file, {**dataclasses.asdict(family), "folder": str(family.folder)})


def read(file: Path) -> Family:
    """Return a family equal to the one that `write` wrote; raise BadFile."""
    try:
        content: dict[str, Any] = json.loads(read_bytes(file))
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
        fields: dict[str, Any] = {
            **plain,
            "folder": Path(content["folder"]),
            "parameters": tuple(Parameter(**entry) for entry in content["parameters"]),
            "arguments": tuple(
                Argument(**{**entry, "shape": tuple(entry["shape"]), "box": tuple(entry["box"])})
                for entry in content["arguments"]
            ),
            "kernels": tuple(_kernel(entry) for entry in content["kernels"]),
        }
        return Family(**fields)
    except (ValueError, KeyError, TypeError) as error:
        raise BadFile(f"{file} does not describe a family: {error}", "profile the kernel again") from error


def _kernel(entry: dict[str, Any]) -> Kernel:
    tuples = {name: tuple(entry.get(name, ())) for name in ("box", "options", "grid", "block")}
    boxes = {name: tuple(box) for name, box in entry.get("boxes", {}).items()}
    return Kernel(**{**entry, **tuples, "boxes": boxes})
