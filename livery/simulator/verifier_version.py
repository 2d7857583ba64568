"""Which verifier scored something: a digest over the source and data that decide scores.

Figures compare only where this is equal. It is made of the files themselves and not raised by hand, so that a changed
rule cannot pass for the rule of before; comments, docstrings and blank lines do not count. `SOURCES` are the modules by
which a reply is read and judged. What a task or a harness is made of is not here: runs hold digests of those beside it.
"""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
SOURCES: Final = (
    *(
        f"simulator/{name}.py"
        for name in (
            "advice", "assertions", "cues", "evidence", "judging", "known", "lexicon", "manner", "reading",
            "relevance", "relevance_words", "reply_form", "statements", "tool_use", "verifier",
        )
    ),
    *(
        f"harness/{name}.py"
        for name in (
            "numerals", "quantities", "quantity_amounts", "quantity_patterns", "quantity_reader", "quantity_shapes",
            "units",
        )
    ),
    *(
        f"harness/hooks/builtin/{name}"
        for name in (
            "evidence.py", "money_roles.py", "personal_data.py", "speech.py", "wordlists.py", "lists/en.yaml",
            "lists/zh.yaml",
        )
    ),
    "shop/matching.py",
)  # fmt: skip
"""Paths within the package."""


@lru_cache(maxsize=8)
def verifier_version(judges: Sequence[Path] = ()) -> str:
    """Twelve hexadecimal digits.

    Args:
        judges: a tuple of further files that decide, of sets which judge by more than the verifier.
    """
    whole = hashlib.sha256()
    for path in (*(_PACKAGE / name for name in SOURCES), *judges):
        text = path.read_text(encoding="utf-8")
        whole.update(f"{path.name}\n{bare(text) if path.suffix == '.py' else text}\n".encode())
    return whole.hexdigest()[:12]


def bare(source: str) -> str:
    """Python source without comments, blank lines and constants that stand alone (docstrings); the same under every
    version of Python."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        for inner in ast.iter_child_nodes(node):
            if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant) and inner.end_lineno is not None:
                lines[inner.lineno - 1 : inner.end_lineno] = [""] * (inner.end_lineno - inner.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())
