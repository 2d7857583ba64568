"""oba-live-tool's live messages, one JSON object a line or one array.

The desktop tool for Chinese live commerce (Douyin, Xiaohongshu, WeChat Channels, Taobao) passes every
message as ``{msg_type, msg_id, nick_name, user_id?, content?, time}``. ``time`` is, by platform and version,
a wall clock in the machine's locale, an ISO text, or an epoch. Entrances and likes are counted, not chat.
https://github.com/TLS-Live/oba-live-tool
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
    json_kind,
    word,
)
from livery.room.sources.times import from_epoch, parse_at, parse_time_of_day
from livery.types import ChatEvent, ChatMessage, MessageKind

NAME = "oba-live-tool"

_COMMENTS = {
    "comment": "douyin",
    "wechat_channel_live_msg": "wechat-channels",
    "xiaohongshu_comment": "xiaohongshu",
    "taobao_comment": "taobao",
}
_MEMBERS = {
    "room_follow": "关注",
    "subscribe_merchant_brand_vip": "品牌会员",
    "ecom_fansclub_participate": "粉丝团",
}
_NOT_CHAT = {"room_enter", "room_like"}


def _matches(sample: Sample) -> bool:
    return any(isinstance(row.get("msg_type"), str) and "nick_name" in row for row in sample.objects)


def _events(row: Row, ledger: Ledger) -> Sequence[ChatEvent] | NotChat:
    item = as_object(row.value)
    what = item.get("msg_type")
    if not isinstance(what, str):
        raise RowFault(f"found {json_kind(what)}, expected a message type", field="msg_type")
    if what in _NOT_CHAT:
        return NotChat(what)
    name = word(item.get("nick_name"))
    viewer = word(item.get("user_id")) or name
    if not viewer:
        raise RowFault("missing; expected a user_id or nick_name", field="nick_name")
    text = word(item.get("content"))
    if what in _COMMENTS:
        kind, amount, source = MessageKind.CHAT, "", _COMMENTS[what]
        if "content" not in item:
            raise RowFault("missing; expected the comment's text", field="content")
    elif what in _MEMBERS:
        # The content of these is the tool's own phrase, not something the viewer wrote.
        kind, amount, source, text = MessageKind.MEMBER, _MEMBERS[what], "douyin", ""
    elif what == "live_order":
        kind, source, text = MessageKind.SYSTEM, "douyin", ""
        title, status = word(item.get("product_title")), word(item.get("order_status"))
        amount = f"{title} {_ORDER.get(status, status)}".strip()
    else:
        raise RowFault(f"unknown message type {what!r}", field="msg_type", code="chat-unknown")
    message = ChatMessage(
        id=word(item.get("msg_id")) or derived_id(NAME, row.index, viewer, word(item.get("time")), text),
        room=ledger.room,
        viewer=viewer,
        name=name,
        text=text,
        at=ledger.at_or_last(_at(item, ledger), row.line),
        kind=kind,
        amount=amount,
        source=source,
    )
    return (message,)


_ORDER = {"0": "已下单", "3": "已付款"}


def _at(item: dict[str, Any], ledger: Ledger) -> float | None:
    value = item.get("time")
    if value is None and isinstance(item.get("order_ts"), int | float):
        value = item["order_ts"]
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return from_epoch(value)
    # Without a known day, noon of day one keeps a clock of any hour on that day.
    near = (ledger.base_at or 43_200.0) if ledger.last_at is None else ledger.last_at
    clock = parse_time_of_day(str(value), near=near, zone=ledger.zone)
    if clock is not None:
        return clock
    at = parse_at(value, ledger.zone)
    if isinstance(at, float):
        return at
    raise RowFault(f"found {value!r}, expected a clock (20:31:05), an ISO time or an epoch", field="time")


FORMAT = ChatFormat(
    name=NAME,
    title='oba-live-tool events ({"msg_type": "comment", "nick_name": ..., "content": ...})',
    matches=_matches,
    rows=array_or_lines,
    events=_events,
)
read = FORMAT.read
