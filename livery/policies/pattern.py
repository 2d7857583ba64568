"""The regular part of a JSON Schema ``pattern`` as a GBNF expression that fits inside a JSON string.

Read: literals, ``.``, classes, ``\\d \\w \\s``, groups, alternation and the quantifiers, between the anchors
``^`` and ``$``. Look-around, back references, lazy marks, characters that JSON must escape and ``<`` are not:
`pattern_rule` then answers None and the caller takes a plain string. This is a translator, not a matcher.
"""

from __future__ import annotations

_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": " "}
_REPEAT = 24
"""Most repetitions of ``*`` and ``+``: a string has to end."""


class _Unsupported(Exception):
    """The pattern has a part that cannot be translated."""


def pattern_rule(pattern: str) -> str | None:
    """A GBNF expression for the strings that ``pattern`` matches; None where it has no such expression.

    An unanchored end means "anything" in JSON Schema; here it means nothing, which is a narrower, valid
    choice.
    """
    reader = _Reader(pattern.removeprefix("^").removesuffix("$") if not pattern.endswith("\\$") else pattern)
    try:
        rule = reader.alternation()
    except _Unsupported:
        return None
    return f"( {rule} )" if reader.done else None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def done(self) -> bool:
        return self._at >= len(self._text)

    def _peek(self) -> str:
        return "" if self.done else self._text[self._at]

    def _next(self) -> str:
        if self.done:
            raise _Unsupported
        self._at += 1
        return self._text[self._at - 1]

    def alternation(self) -> str:
        ways = [self._sequence()]
        while self._peek() == "|":
            self._next()
            ways.append(self._sequence())
        return " | ".join(ways)

    def _sequence(self) -> str:
        parts: list[str] = []
        while not self.done and self._peek() not in "|)":
            parts.append(self._atom() + self._quantifier())
        return " ".join(parts) or '""'

    def _atom(self) -> str:
        char = self._next()
        match char:
            case "(":
                if self._peek() == "?":
                    self._next()
                    if self._next() != ":":
                        raise _Unsupported
                inner = self.alternation()
                if self._next() != ")":
                    raise _Unsupported
                return f"( {inner} )"
            case "[":
                return self._class()
            case ".":
                return r'[^"\\<\x00-\x1F\x7F]'
            case "\\":
                kind = self._next()
                return f"[{_CLASSES[kind]}]" if kind in _CLASSES else f'"{_literal(kind, escaped=True)}"'
            case "^" | "$" | "*" | "+" | "?" | "{":
                raise _Unsupported
            case _:
                return f'"{_literal(char)}"'

    def _class(self) -> str:
        negated = self._peek() == "^"
        if negated:
            self._next()
        body = ""
        while self._peek() != "]":
            char = self._next()
            if char == "\\":
                kind = self._next()
                body += _CLASSES[kind] if kind in _CLASSES else _in_class(_literal(kind, escaped=True))
            elif char == "-" and body and self._peek() != "]":
                body += "-"
            else:
                body += _in_class(_literal(char))
        self._next()
        if not body:
            raise _Unsupported
        return rf'[^{body}"\\<\x00-\x1F\x7F]' if negated else f"[{body}]"

    def _quantifier(self) -> str:
        char = self._peek()
        counts = {"*": f"{{0,{_REPEAT}}}", "+": f"{{1,{_REPEAT}}}", "?": "?"}
        if char in counts and char:
            self._next()
            out = counts[char]
        elif char == "{":
            self._next()
            body = ""
            while self._peek() != "}":
                body += self._next()
            self._next()
            low, comma, high = body.partition(",")
            if not low.isdecimal() or (high and not high.isdecimal()):
                raise _Unsupported
            out = f"{{{low},{high or int(low) + _REPEAT}}}" if comma else f"{{{low}}}"
        else:
            return ""
        if self._peek() in ("?", "+"):
            raise _Unsupported
        return out


def _literal(char: str, *, escaped: bool = False) -> str:
    if char in '"\\<' or ord(char) < 0x20 or char == "\x7f" or (escaped and char.isalnum()):
        raise _Unsupported
    return char


def _in_class(char: str) -> str:
    return f"\\x{ord(char):02X}" if char in "]^-[" else char
