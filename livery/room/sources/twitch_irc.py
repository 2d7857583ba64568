"""Twitch chat as raw IRC lines with tags: what clients and bots log, and what the live source receives.

Documented at https://dev.twitch.tv/docs/chat/irc/. Channel state (ROOMSTATE, NOTICE, JOIN, ...) is counted,
not chat. A message shared from another channel's chat is read as this room's: its viewers see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from livery.room.sources.irc import IrcLine, IrcSyntaxError, parse_line
from livery.room.sources.reading import (
    BrokenRow,
    ChatFormat,
    FileNote,
    Ledger,
    NotChat,
    Row,
    RowFault,
    Sample,
    derived_id,
    lines,
)
from livery.types import ChatDeletion, ChatEvent, ChatMessage, MessageKind

NAME = "twitch-irc"

_WHOLE = re.compile(r"[0-9]{1,16}")
_PLANS = {"Prime": "Prime sub", "1000": "Tier 1 sub", "2000": "Tier 2 sub", "3000": "Tier 3 sub"}
_MEMBER_NOTICES = {
    "sub",
    "resub",
    "extendsub",
    "primepaidupgrade",
    "giftpaidupgrade",
    "anongiftpaidupgrade",
    "viewermilestone",
}
_GIFT_NOTICES = {
    "subgift",
    "anonsubgift",
    "submysterygift",
    "anonsubmysterygift",
    "standardpayforward",
    "communitypayforward",
    "rewardgift",
}


def _matches(sample: Sample) -> bool:
    """A line that parses and carries one of Twitch's own commands."""
    for line in sample.text.splitlines()[:50]:
        if not line.startswith(("@", ":")):
            continue
        try:
            command = parse_line(line).command
        except IrcSyntaxError:
            continue
        if command in {"PRIVMSG", "USERNOTICE", "CLEARCHAT", "CLEARMSG", "ROOMSTATE", "USERSTATE", "NOTICE"}:
            return True
    return False


def _rows(path: Path) -> Iterator[Row | BrokenRow | FileNote]:
    index = 0
    for number, text in lines(path):
        if isinstance(text, BrokenRow):
            yield text
        elif text.strip():
            try:
                yield Row(number, index, parse_line(text))
            except IrcSyntaxError as error:
                yield BrokenRow(number, str(error))
        else:
            continue
        index += 1


def _events(row: Row, ledger: Ledger) -> Sequence[ChatEvent] | NotChat:
    line: IrcLine = row.value
    sent = sent_at(line.tags)
    if line.command not in {"PRIVMSG", "USERNOTICE", "CLEARCHAT", "CLEARMSG"}:
        return NotChat(line.command)
    at = ledger.at_or_last(sent, row.line)
    event = chat_event(line, room=ledger.room, at=at, index=row.index)
    return (event,)


def sent_at(tags: Mapping[str, str]) -> float | None:
    """The server's clock for a line, as a Unix epoch; None where it does not say."""
    stamp = tags.get("tmi-sent-ts") or tags.get("rm-received-ts") or ""
    return int(stamp) / 1000 if _WHOLE.fullmatch(stamp) else None


def chat_event(line: IrcLine, *, room: str, at: float, index: int) -> ChatEvent:
    """The event of one PRIVMSG, USERNOTICE, CLEARCHAT or CLEARMSG.

    ``index`` (the line's position) makes an id where the line has none.

    Raises:
        RowFault: a parameter that the command needs is missing.
    """
    tags = line.tags
    if line.command == "CLEARMSG":
        target = tags.get("target-msg-id", "")
        if not target:
            raise RowFault("CLEARMSG without the message it removes", field="target-msg-id")
        return ChatDeletion(room=room, at=at, message=target)
    if line.command == "CLEARCHAT":
        viewer = tags.get("target-user-id") or (line.params[1].strip() if len(line.params) > 1 else "")
        return ChatDeletion(room=room, at=at, viewer=viewer, everything=not viewer)
    notice = line.command == "USERNOTICE"
    if not notice and len(line.params) < 2:
        raise RowFault("PRIVMSG without a text after the channel", field="text")
    text = line.params[1] if len(line.params) > 1 else ""
    login = tags.get("login", "") if notice else line.nick
    viewer = tags.get("user-id") or login or tags.get("display-name", "")
    if not viewer:
        raise RowFault("no sender: neither a user-id tag nor a nick", field="user-id")
    kind, amount = _notice(tags) if notice else _paid(tags)
    if notice and kind is MessageKind.SYSTEM and not text:
        text = tags.get("system-msg", "").strip()
    return ChatMessage(
        id=tags.get("id") or derived_id("twitch", index, viewer, text),
        room=room,
        viewer=viewer,
        name=tags.get("display-name") or login,
        text=_without_action(text),
        at=at,
        kind=kind,
        amount=amount,
        reply_to=tags.get("reply-parent-msg-id", ""),
        source="twitch",
    )


def _without_action(text: str) -> str:
    """The words of a ``/me`` line, which IRC wraps in a CTCP ACTION."""
    if text.startswith("\x01ACTION ") and text.endswith("\x01"):
        return text[8:-1]
    return text


def _paid(tags: Mapping[str, str]) -> tuple[MessageKind, str]:
    if bits := tags.get("bits"):
        return MessageKind.PAID, f"{bits} bits"
    if raw := tags.get("pinned-chat-paid-amount"):
        exponent = tags.get("pinned-chat-paid-exponent", "0")
        figure = _with_decimals(raw, exponent)
        return MessageKind.PAID, f"{tags.get('pinned-chat-paid-currency', '')} {figure}".strip()
    return MessageKind.CHAT, ""


def _with_decimals(minor_units: str, exponent: str) -> str:
    """ "1400" with exponent "2" is "14.00"; what is not a number stays as it is."""
    if not (_WHOLE.fullmatch(minor_units) and exponent in ("0", "1", "2", "3", "4")):
        return minor_units
    digits = int(exponent)
    return f"{int(minor_units) / 10**digits:.{digits}f}"


def _notice(tags: Mapping[str, str]) -> tuple[MessageKind, str]:
    what = tags.get("msg-id", "")
    if what == "sharedchatnotice":
        what = tags.get("source-msg-id", "")
    plan = _PLANS.get(tags.get("msg-param-sub-plan", ""), "")
    if what in _GIFT_NOTICES:
        count = tags.get("msg-param-mass-gift-count") or "1"
        return MessageKind.GIFT, f"{plan or what} x{count}"
    if what in _MEMBER_NOTICES:
        months = tags.get("msg-param-cumulative-months") or tags.get("msg-param-months") or ""
        return MessageKind.MEMBER, f"{plan or what}{f', month {months}' if months not in ('', '0') else ''}"
    if what == "charitydonation":
        raw = tags.get("msg-param-donation-amount", "")
        digits = tags.get("msg-param-exponent", "0")
        figure = _with_decimals(raw, digits)
        return MessageKind.PAID, f"{tags.get('msg-param-donation-currency', '')} {figure}".strip()
    return MessageKind.SYSTEM, ""


FORMAT = ChatFormat(
    name=NAME,
    title="raw Twitch IRC lines with tags (@...;id=... :user!... PRIVMSG #channel :text)",
    matches=_matches,
    rows=_rows,
    events=_events,
)
read = FORMAT.read
