"""Reads the GBNF that livery writes as a regular expression, so that tests can ask what a grammar accepts.

Only for grammars without recursion. Not a test module.
"""

import re

_TOKEN = re.compile(
    r'\s*(?:(?P<literal>"(?:\\.|[^"\\])*")|(?P<class>\[(?:\\.|[^\]\\])*\])|(?P<name>[a-z][a-z0-9-]*)'
    r"|(?P<mark>[()|]|[?*+]|\{\d+(?:,\d*)?\}))"
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def expression(grammar: str) -> re.Pattern[str]:
    rules = dict(line.split(" ::= ", 1) for line in grammar.splitlines() if line)
    return re.compile(_expand("root", rules, ()))


def _expand(name: str, rules: dict[str, str], inside: tuple[str, ...]) -> str:
    assert name not in inside, f"{name} is recursive"
    body, at, out = rules[name].rstrip(), 0, []
    while at < len(body):
        match = _TOKEN.match(body, at)
        assert match, f"cannot read {body[at:]!r} in {name}"
        at = match.end()
        if match["literal"]:
            out.append(f"(?:{re.escape(_literal(match['literal'][1:-1]))})")
        elif match["class"]:
            out.append(match["class"])
        elif match["name"]:
            out.append(_expand(match["name"], rules, (*inside, name)))
        else:
            out.append("(?:" if match["mark"] == "(" else match["mark"])
    return f"(?:{''.join(out)})"


def _literal(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if code[0] == "x" else _ESCAPES.get(code, code)

    return re.sub(r"\\(x[0-9A-Fa-f]{2}|.)", one, text)
