"""The verifier's version: it changes with what decides scores, and with nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

from livery.simulator.verifier_version import SOURCES, bare, verifier_version

PACKAGE = Path(__file__).parents[2] / "livery"
CARRIERS = frozenset(
    {
        "errors.py", "types.py", "harness/model.py", "harness/schema.py", "harness/source.py", "harness/lint_tools.py",
        "harness/hooks/decisions.py", "harness/hooks/builtin/definition.py", "shop/catalogue.py", "shop/documents.py",
        "shop/loading.py", "shop/operations.py", "shop/reading.py", "simulator/task.py", "simulator/worlds.py",
    }
)  # fmt: skip
"""What the verifier imports that carries tasks, shops and harnesses to it and judges nothing: runs hold their digests."""


def imported(path: Path) -> set[Path]:
    """Files of the package that a file imports when it is loaded or run."""
    found: set[Path] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("livery"):
            module = PACKAGE.parent / (node.module or "").replace(".", "/")
            candidates = [module, *(module / a.name for a in node.names)]
            found |= {c.with_suffix(".py") for c in candidates if c.with_suffix(".py").is_file()}
    return found


def test_every_file_that_decides_scores_is_in_the_version():
    seen: set[Path] = set()
    waiting = [PACKAGE / "simulator/verifier.py"]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            if str(path.relative_to(PACKAGE)) not in CARRIERS:
                waiting += imported(path)
    names = {str(p.relative_to(PACKAGE)) for p in seen}
    assert names - CARRIERS == {s for s in SOURCES if s.endswith(".py")}
    assert {s for s in SOURCES if not s.endswith(".py")} == {
        f"harness/hooks/builtin/lists/{language}.yaml" for language in ("en", "zh")
    }


def test_comments_docstrings_and_blank_lines_do_not_count():
    source = '''"""What it is."""

import re  # for patterns

LIMIT = 3  # of them
"""Why three."""


def two(text: str) -> str:
    """Docstring
    of two lines."""
    # never "#"
    return text + "# kept"
'''
    assert bare(source) == 'import re\nLIMIT = 3\ndef two(text: str) -> str:\n    return text + "# kept"'


def test_a_changed_rule_is_another_version(tmp_path: Path):
    rules = tmp_path / "rules.py"
    versions: list[str] = []
    for text in ("LIMIT = 3\n", "LIMIT = 3  # still\n", "LIMIT = 4\n"):
        rules.write_text(text)
        verifier_version.cache_clear()
        versions.append(verifier_version((rules,)))
    assert versions[0] == versions[1] != versions[2]
    assert verifier_version() not in versions
    assert len(verifier_version()) == 12
