"""One IRC line with message tags: RFC 1459 framing, IRCv3 ``message-tags`` escaping.

Only what a chat reader needs: parse, and unescape tag values. It does not build or send lines.
https://ircv3.net/specs/extensions/message-tags
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_UNESCAPED = {":": ";", "s": " ", "\\": "\\", "r": "\r", "n": "\n"}
_COMMAND = re.compile(r"[A-Za-z]+|\d{3}")


@dataclass(frozen=True, slots=True)
class IrcLine:
    tags: Mapping[str, str]
    """Unescaped; a tag without a value is the empty string."""
    prefix: str
    """``nick!user@host`` or a server name, without the colon."""
    command: str
    """Upper case, or three digits."""
    params: tuple[str, ...]
    """The last may hold spaces."""

    @property
    def nick(self) -> str:
        """The sender's login name; the user part where the nick is empty."""
        nick, _, rest = self.prefix.partition("!")
        return nick or rest.partition("@")[0]


class IrcSyntaxError(ValueError):
    """The line is not an IRC message; the text says why."""


def parse_line(line: str) -> IrcLine:
    """Parse one line without its ending.

    Raises:
        IrcSyntaxError: there is no command, or it is malformed.
    """
    rest = line.lstrip(" ")
    tags: dict[str, str] = {}
    prefix = ""
    if rest.startswith("@"):
        head, _, rest = rest[1:].partition(" ")
        for item in head.split(";"):
            key, _, value = item.partition("=")
            if key:
                tags[key] = unescape(value)
        rest = rest.lstrip(" ")
    if rest.startswith(":"):
        prefix, _, rest = rest[1:].partition(" ")
        rest = rest.lstrip(" ")
    command, _, rest = rest.partition(" ")
    if not command:
        after = "tags" if tags else "prefix" if prefix else "nothing"
        raise IrcSyntaxError(f"the line ends after {after}; expected a command such as PRIVMSG")
    if not _COMMAND.fullmatch(command):
        raise IrcSyntaxError(
            f"found {command[:40]!r} where a command is expected (letters or three digits, such as PRIVMSG)"
        )
    params: list[str] = []
    while rest := rest.lstrip(" "):
        if rest.startswith(":"):
            params.append(rest[1:])
            break
        param, _, rest = rest.partition(" ")
        params.append(param)
    return IrcLine(tags, prefix, command.upper(), tuple(params))


def unescape(value: str) -> str:
    r"""A tag value as it was meant: ``\s`` is a space, ``\:`` a semicolon; a lone backslash is dropped."""
    if "\\" not in value:
        return value
    out: list[str] = []
    characters = iter(value)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            out.append(_UNESCAPED.get(escaped, escaped))
        else:
            out.append(character)
    return "".join(out)
