"""chat-downloader's JSON: one array, or one object a line.

Two ages of it. Early files name the author by a string with ``author_id`` beside it; later ones have an
``author`` object, ``message_id``, ``message_type``, ``action_type`` and ``money``, for YouTube, Twitch and
others alike. Timestamps are microseconds in both. https://github.com/xenova/chat-downloader
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livery.room.sources.json_rows import array_or_lines
from livery.room.sources.reading import (
    ChatFormat,
    Ledger,
    NotChat,
    Row,
    RowFault,
    Sample,
    as_object,
    derived_id,
    dig,
    json_kind,
    word,
)
from livery.room.sources.times import from_epoch, parse_offset
from livery.types import ChatDeletion, ChatEvent, ChatMessage, MessageKind

NAME = "chat-downloader"

_ONE_REMOVED = {
    "remove_chat_item",
    "mark_chat_item_as_deleted",
    "delete_message",
    "deleted_message",
}
_VIEWER_REMOVED = {
    "mark_chat_items_by_author_as_deleted",
    "remove_chat_item_by_author",
    "remove_chat_items_by_author",
    "ban_user",
}
_NOT_CHAT = {
    "placeholder_item",
    "banner",
    "banner_header",
    "add_banner_to_live_chat_command",
    "remove_banner",
    "remove_banner_for_live_chat_command",
    "tooltip",
    "poll",
    "update_live_chat_poll",
    "room_state",
    "user_state",
    "notice",
    "successful_login",
    "host_target",
    "reconnect",
}
_GIFTS = {
    "paid_sticker",
    "sponsorships_gift_purchase_announcement",
    "subscription_gift",
    "anonymous_subscription_gift",
    "mystery_subscription_gift",
    "anonymous_mystery_subscription_gift",
    "gift_message",
}
_MEMBERS = {
    "membership_item",
    "sponsorships_gift_redemption_announcement",
    "subscription",
    "resubscription",
    "extend_subscription",
    "prime_paid_upgrade",
    "gift_paid_upgrade",
    "anonymous_gift_paid_upgrade",
}
_NOTICES = {
    "viewer_engagement_message",
    "mode_change_message",
    "donation_announcement",
    "purchased_product_message",
    "user_notice",
    "announcement",
    "raid",
    "unraid",
    "ritual",
    "bits_badge_tier",
}


def _matches(sample: Sample) -> bool:
    def fits(row: dict[str, Any]) -> bool:
        timed = "time_in_seconds" in row or "time_text" in row or "timestamp" in row
        early = isinstance(row.get("author"), str) and "author_id" in row
        return timed and (early or "message_type" in row or "action_type" in row or "message_id" in row)

    return any(fits(row) for row in sample.objects)


def _events(row: Row, ledger: Ledger) -> Sequence[ChatEvent] | NotChat:
    item = as_object(row.value)
    message_type, action = word(item.get("message_type")), word(item.get("action_type"))
    kinds = {message_type, action}
    if message_type.startswith("ticker_"):
        return NotChat("ticker")
    if known := kinds & _NOT_CHAT:
        return NotChat(min(known))
    at = ledger.at_or_last(_at(item, ledger), row.line)
    if "clear_chat" in kinds and not kinds & _VIEWER_REMOVED:
        return (ChatDeletion(room=ledger.room, at=at, everything=True),)
    if kinds & _ONE_REMOVED:
        return (ChatDeletion(room=ledger.room, at=at, message=_target(item, "target_message_id")),)
    if kinds & _VIEWER_REMOVED:
        who = "target_author_id" if item.get("target_author_id") else "author_id"
        viewer = word(item.get(who)) or word(dig(item, "author", "id")) or word(item.get("banned_user"))
        if not viewer:
            raise RowFault(f"{action or message_type} without the viewer it concerns", field="author_id")
        return (ChatDeletion(room=ledger.room, at=at, viewer=viewer),)
    return (_message(item, message_type, at, row, ledger),)


def _message(item: dict[str, Any], message_type: str, at: float, row: Row, ledger: Ledger) -> ChatMessage:
    author = item.get("author")
    name = author if isinstance(author, str) else word(dig(author, "display_name") or dig(author, "name"))
    viewer = word(dig(author, "id")) or word(item.get("author_id")) or name
    text = item.get("message")
    if text is not None and not isinstance(text, str):
        raise RowFault(f"found {json_kind(text)}, expected a string or null", field="message")
    kind = _kind(item, message_type)
    if text is None and kind is MessageKind.CHAT:
        raise RowFault("missing; expected the message's text", field="message")
    if not viewer and kind is not MessageKind.SYSTEM:
        raise RowFault("missing; expected an author with an id or a name", field="author")
    words = text or (word(item.get("system_message")) if kind is MessageKind.SYSTEM else "")
    return ChatMessage(
        id=word(item.get("message_id")) or derived_id(NAME, row.index, viewer, word(item.get("timestamp")), words),
        room=ledger.room,
        viewer=viewer or "system",
        name=name,
        text=words,
        at=at,
        kind=kind,
        amount=_amount(item, kind),
        reply_to=word(dig(item, "in_reply_to", "message_id")),
        source=NAME,
    )


def _kind(item: dict[str, Any], message_type: str) -> MessageKind:
    if message_type in _GIFTS:
        return MessageKind.GIFT
    if message_type in _MEMBERS:
        return MessageKind.MEMBER
    if message_type in _NOTICES:
        return MessageKind.SYSTEM
    paid = message_type == "paid_message" or item.get("money") or item.get("amount") or item.get("bits")
    return MessageKind.PAID if paid else MessageKind.CHAT


def _amount(item: dict[str, Any], kind: MessageKind) -> str:
    money = item.get("money")
    if isinstance(money, dict):
        shown = word(dig(money, "text"))
        return shown or f"{word(dig(money, 'currency'))} {word(dig(money, 'amount'))}".strip()
    if amount := word(item.get("amount")):
        return amount
    if bits := word(item.get("bits")):
        return f"{bits} bits"
    if kind is MessageKind.MEMBER:
        return word(item.get("header_primary_text")) or word(item.get("header_secondary_text"))
    return ""


def _target(item: dict[str, Any], field: str) -> str:
    target = word(item.get(field))
    if not target:
        raise RowFault("missing; expected the id of the removed message", field=field)
    return target


def _at(item: dict[str, Any], ledger: Ledger) -> float | None:
    offset = _offset(item)
    stamp = item.get("timestamp")
    if isinstance(stamp, int | float) and not isinstance(stamp, bool):
        at = from_epoch(stamp)
        if offset is not None:
            ledger.origin = at - offset
        return at
    return None if offset is None else ledger.at_offset(offset)


def _offset(item: dict[str, Any]) -> float | None:
    milliseconds = item.get("video_offset_time_msec")
    if isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool):
        return milliseconds / 1000
    seconds = item.get("time_in_seconds")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool):
        return float(seconds)
    shown = item.get("time_text")
    return parse_offset(shown) if isinstance(shown, str) else None


FORMAT = ChatFormat(
    name=NAME,
    title='chat-downloader JSON ([{"author": ..., "message": ..., "time_in_seconds": ...}])',
    matches=_matches,
    rows=array_or_lines,
    events=_events,
)
read = FORMAT.read
