"""Plain data, as JSON and TOML hold it, with hostile values in it and digests that fit."""

import json
import math
from collections.abc import Callable
from random import Random
from typing import Any

from bench.attacks.corpus import hostile
from ncu_swizzle.base import cache

Content = dict[str, Any]
Seal = Callable[[Content], Content]


def with_hostile_value(content: Any, chance: Random) -> Any:
    """Return the data with one value replaced, which may be a whole table or list; each level counts the same."""
    if not isinstance(content, dict | list) or not content or chance.random() < 0.07:
        return hostile.like(content, chance)
    key: Any = chance.choice(list(content)) if isinstance(content, dict) else chance.randrange(len(content))
    if isinstance(content, dict) and chance.random() < 0.05:
        renamed = hostile.text(chance)[:5000]
        return {renamed if name == key else name: value for name, value in content.items()}
    copy = content.copy()
    copy[key] = with_hostile_value(content[key], chance)
    return copy


def with_wanted(content: Any, chance: Random) -> Any:
    """Return the settings with one key saying what its reader should not do; keys that are missing are added."""
    tables = list(_tables(content))
    table, name = chance.choice([(table, name) for table in tables for name in table if name in hostile.SETTINGS])
    if chance.random() < 0.2:
        table, name = chance.choice(tables), chance.choice(list(hostile.SETTINGS))
    return _replaced(content, table, {**table, name: chance.choice(hostile.SETTINGS[name])})


def _tables(content: Any) -> list[Any]:
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    own = [content] if isinstance(content, dict) else []
    return own + [table for part in parts for table in _tables(part)]


def _replaced(content: Any, old: Any, new: Any) -> Any:
    if content is old:
        return new
    if isinstance(content, dict):
        return {name: _replaced(part, old, new) for name, part in content.items()}
    return [_replaced(part, old, new) for part in content] if isinstance(content, list) else content


# ------------------------------------------------------------------------------------------------ digests that fit


def sealed_profile(content: Content) -> Content:
    """Return the content of a saved profile with its digest."""
    bare = {name: value for name, value in content.items() if name != "digest"}
    return {**bare, "digest": cache.sha256_of_json(bare)}


def sealed_baseline(content: Content) -> Content:
    """Return the content of a baseline, each entry with its digest."""
    kernels = content.get("kernels")
    if not isinstance(kernels, list):
        return content
    return {**content, "kernels": [sealed_profile(e) if isinstance(e, dict) else e for e in kernels]}


def written(content: Any, seal: Seal | None = None) -> bytes:
    """Return the JSON text, sealed if that is possible: a lone surrogate has no digest."""
    if seal is not None and isinstance(content, dict):
        try:
            content = seal(content)
        except (UnicodeEncodeError, ValueError):
            content = content.copy()
    return (json.dumps(content, ensure_ascii=True) + "\n").encode()


# ------------------------------------------------------------------------------------------------ TOML


def toml(content: Content) -> bytes:
    """Return the data as TOML, every table but the outermost in one line."""
    return "".join(f"{_key(name)} = {_value(value)}\n" for name, value in content.items()).encode("utf-8", "replace")


def _key(name: str) -> str:
    return _value(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value).replace("\x7f", "\\u007f")
    if isinstance(value, float):
        return (
            ("nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
            if not math.isfinite(value)
            else repr(value)
        )
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(name)} = {_value(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return '""' if value is None else str(value)
