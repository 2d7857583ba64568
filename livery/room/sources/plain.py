"""Livery's own plain chat rows: the columns of the JSONL and CSV formats, and the names they go by.

Documented for people in docs/chat-sources.md. Only ``text`` is needed; a viewer and a time are wise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from livery.room.sources.reading import Ledger, Row, RowFault, derived_id, json_kind, word
from livery.room.sources.times import Offset, parse_at
from livery.types import ChatDeletion, ChatEvent, ChatMessage, MessageKind

ALIASES: Mapping[str, tuple[str, ...]] = {
    "text": (
        *("text", "message", "content", "comment", "msg", "body", "danmaku"),
        *("弹幕", "内容", "评论", "消息"),
    ),
    "viewer": (
        *("viewer", "viewer_id", "user_id", "userid", "uid", "author_id", "author.id"),
        *("用户id", "用户编号"),
    ),
    "name": (
        *("name", "user", "username", "user_name", "nickname", "nick_name", "nick", "uname"),
        *("author", "author_name", "author.name", "sender", "昵称", "用户", "用户名", "用户昵称"),
    ),
    "at": (
        *("at", "time", "timestamp", "ts", "date", "datetime", "created_at", "sent_at"),
        *("time_in_seconds", "offset", "offset_s", "time_text", "时间", "发送时间"),
    ),
    "id": ("id", "message_id", "msg_id", "comment_id", "消息id", "弹幕id"),
    "kind": ("kind", "type", "message_type", "类型"),
    "amount": ("amount", "price", "gift", "金额", "礼物"),
    "reply_to": ("reply_to", "in_reply_to", "parent_id", "回复"),
}
"""Each column and the headers accepted for it, first found first used. Case and spaces do not matter."""

_KINDS: Mapping[str, MessageKind] = {
    **{kind.value: kind for kind in MessageKind},
    "": MessageKind.CHAT,
    "text": MessageKind.CHAT,
    "message": MessageKind.CHAT,
    "comment": MessageKind.CHAT,
    "text_message": MessageKind.CHAT,
    "弹幕": MessageKind.CHAT,
    "评论": MessageKind.CHAT,
    "superchat": MessageKind.PAID,
    "super_chat": MessageKind.PAID,
    "paid_message": MessageKind.PAID,
    "sc": MessageKind.PAID,
    "礼物": MessageKind.GIFT,
    "membership": MessageKind.MEMBER,
    "关注": MessageKind.MEMBER,
    "notice": MessageKind.SYSTEM,
}
_DELETIONS = ("delete", "clear")


def normal(header: str) -> str:
    """A header as the alias table spells it."""
    return header.strip().lower().replace(" ", "_").replace("-", "_")


def columns(headers: Iterable[str]) -> dict[str, str]:
    """Which of the given headers holds each column."""
    by_name = {normal(header): header for header in reversed(list(headers))}
    found: dict[str, str] = {}
    for column, names in ALIASES.items():
        for name in names:
            if name in by_name:
                found[column] = by_name[name]
                break
    return found


def plain_event(values: Mapping[str, Any], source: str, row: Row, ledger: Ledger) -> ChatEvent:
    """The event of one row whose ``values`` are keyed by column.

    ``kind: delete`` removes the message ``id`` names, or all of ``viewer``'s; ``kind: clear`` all messages.

    Raises:
        RowFault: text or kind is not usable, or a time cannot be understood.
    """
    kind_text = normal(word(values.get("kind")))
    viewer, name = word(values.get("viewer")).strip(), word(values.get("name")).strip()
    given_id = word(values.get("id")).strip()
    at = ledger.at_or_last(_at(values.get("at"), ledger), row.line)
    if kind_text in _DELETIONS:
        if kind_text == "delete" and not (given_id or viewer or name):
            raise RowFault("a delete row names neither a message id nor a viewer", field="id")
        if kind_text == "clear":
            return ChatDeletion(room=ledger.room, at=at, everything=True)
        removed_viewer = "" if given_id else viewer or name
        return ChatDeletion(room=ledger.room, at=at, message=given_id, viewer=removed_viewer)
    kind = _KINDS.get(kind_text)
    if kind is None:
        expected = ", ".join([*(k.value for k in MessageKind), *_DELETIONS])
        raise RowFault(f"found {kind_text!r}, expected one of {expected}", field="kind")
    text = values.get("text")
    if not isinstance(text, str) and (text is not None or kind is MessageKind.CHAT):
        raise RowFault(f"found {json_kind(text)}, expected a string", field="text")
    words = text or ""
    if not words.strip() and kind is MessageKind.CHAT:
        raise RowFault("empty; expected what the viewer wrote", field="text")
    who = viewer or name or "viewer"
    return ChatMessage(
        id=given_id or derived_id(source, row.index, who, word(values.get("at")), words),
        room=ledger.room,
        viewer=who,
        name=name or viewer,
        text=words,
        at=at,
        kind=kind,
        amount=word(values.get("amount")),
        reply_to=word(values.get("reply_to")),
        source=word(values.get("source")) or source,
    )


def _at(value: Any, ledger: Ledger) -> float | None:
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    at = parse_at(value, ledger.zone)
    if at is None:
        hint = "a number of seconds, an ISO 8601 time, or h:mm:ss into the show"
        raise RowFault(f"found {word(value) or json_kind(value)!r}, expected {hint}", field="at")
    return ledger.at_offset(at.seconds) if isinstance(at, Offset) else at
