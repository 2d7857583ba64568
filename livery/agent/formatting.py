"""From an operation's typed result to the text that a policy reads.

The typed value stays in the trajectory; this is only its surface. Money and times are shown by their own
``text`` ("$39.99"): minor units are for arithmetic, and a model that read them would say them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from jinja2 import Template

from livery.harness.model import ResultFormat
from livery.types import JSON, ToolError

_BLANKS = re.compile(r" {2,}")
_TYPED = ({"amount", "currency", "text"}, {"at", "text"}, {"value", "unit", "text"})


def surface(value: JSON) -> JSON:
    """The value as a person would write it: typed objects by their text, empty fields left out."""
    if isinstance(value, dict):
        if 1 < len(value) <= 3 and "text" in value and any(value.keys() <= kind for kind in _TYPED):
            return value["text"]
        fields = {k: surface(v) if isinstance(v, (dict, list)) else v for k, v in value.items()}
        return {k: v for k, v in fields.items() if v or isinstance(v, int | float)}
    if isinstance(value, list):
        return [surface(v) for v in value]
    return value


def format_result(value: JSON, how: ResultFormat, template: Template | None = None, page: int = 1) -> str:
    """Render one result.

    Args:
        template: ``how.template`` compiled, for style "prose".
        page: 1-based; used when ``how.page_size`` is set.
    """
    shown = _relabelled(surface(value), how)
    if how.page_size:
        shown = _paged(shown, how.page_size, page)
    if how.style == "json":
        return json.dumps(shown, ensure_ascii=False, separators=(", ", ": "))
    if how.style == "key_value":
        return "\n".join(key_value_lines(shown))
    if how.style == "xml":
        return _xml("result", shown)
    if template is None:
        return " ".join(f"{line.strip()}." for line in key_value_lines(shown))
    if not isinstance(shown, dict):
        return template.render(result=shown).strip()
    fields: dict[str, Any] = dict(shown)
    # A folded template leaves runs of blanks where a condition did not hold.
    return _BLANKS.sub(" ", template.render({**fields, "result": shown})).strip()


def format_error(error: ToolError, how: ResultFormat) -> str:
    """An error in the tool's own style, with the tool's own code for it where it has one."""
    code = how.errors.get(error.kind.value, error.kind.value)
    if how.style == "json":
        return json.dumps({"error": code, "message": error.message}, ensure_ascii=False)
    if how.style == "xml":
        return f"<error kind={json.dumps(code, ensure_ascii=False)}>{escape(error.message)}</error>"
    return f"error ({code}): {error.message}"


def key_value_lines(value: JSON, prefix: str = "") -> list[str]:
    """``field: value`` lines; nested fields are dotted, list items numbered."""
    if isinstance(value, dict):
        return [line for k, v in value.items() for line in key_value_lines(v, f"{prefix}.{k}" if prefix else k)]
    if isinstance(value, list):
        if all(not isinstance(v, (dict, list)) for v in value):
            return [f"{prefix or 'items'}: {', '.join(_scalar(v) for v in value)}"]
        return [line for i, v in enumerate(value, 1) for line in key_value_lines(v, f"{prefix or 'item'}[{i}]")]
    return [f"{prefix or 'result'}: {_scalar(value)}"]


def _scalar(value: JSON) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _relabelled(value: JSON, how: ResultFormat) -> JSON:
    if not how.rename and not how.labels:
        return value
    if isinstance(value, dict):
        out: dict[str, JSON] = {}
        for name, field in value.items():
            labels: Mapping[str, str] = how.labels.get(name, {})
            is_scalar = not isinstance(field, (dict, list))
            shown = labels.get(_scalar(field), field) if labels and is_scalar else _relabelled(field, how)
            out[how.rename.get(name, name)] = shown
        return out
    if isinstance(value, list):
        return [_relabelled(v, how) for v in value]
    return value


def _paged(value: JSON, size: int, page: int) -> JSON:
    """Page the first list found at the top of the result; a result without one is left whole."""
    if isinstance(value, list):
        pages = max(1, -(-len(value) // size))
        return {"items": value[(page - 1) * size : page * size], "page": page, "pages": pages}
    if isinstance(value, dict):
        for name, field in value.items():
            if isinstance(field, list) and len(field) > size:
                pages = -(-len(field) // size)
                return {**value, name: field[(page - 1) * size : page * size], "page": page, "pages": pages}
    return value


def _xml(tag: str, value: JSON) -> str:
    if isinstance(value, list):
        return "".join(_xml(tag, v) for v in value)
    # A field whose name is no tag ("Battery life", "10") keeps it as an attribute.
    start, end = (tag, tag) if tag.isidentifier() else (f"item name={quoteattr(tag)}", "item")
    if isinstance(value, dict):
        return f"<{start}>{''.join(_xml(k, v) for k, v in value.items())}</{end}>"
    return f"<{start}>{escape(_scalar(value))}</{end}>"
