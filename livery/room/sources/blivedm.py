"""Bilibili live events, one JSON object a line, as people log them with blivedm.

Three shapes are read: the platform's own commands (``{"cmd": "DANMU_MSG", "info": [...]}``), the open
platform's (``LIVE_OPEN_PLATFORM_DM``), and blivedm's message models dumped as objects (``uname``, ``msg``,
``gift_name``, ...). Ranks, popularity, entrances and the like are counted, not chat.
https://github.com/xfgryujk/blivedm
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from livery.room.sources.json_rows import object_lines
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
from livery.room.sources.times import from_epoch
from livery.types import ChatDeletion, ChatEvent, ChatMessage, MessageKind

NAME = "blivedm"

_GUARDS = {"1": "总督", "2": "提督", "3": "舰长"}
_COMMANDS = {
    "DANMU_MSG": "danmaku",
    "LIVE_OPEN_PLATFORM_DM": "danmaku",
    "LIVE_OPEN_PLATFORM_DM_MIRROR": "danmaku",
    "SEND_GIFT": "gift",
    "LIVE_OPEN_PLATFORM_SEND_GIFT": "gift",
    "SUPER_CHAT_MESSAGE": "super_chat",
    "LIVE_OPEN_PLATFORM_SUPER_CHAT": "super_chat",
    "SUPER_CHAT_MESSAGE_DELETE": "super_chat_delete",
    "LIVE_OPEN_PLATFORM_SUPER_CHAT_DEL": "super_chat_delete",
    "GUARD_BUY": "guard",
    "LIVE_OPEN_PLATFORM_GUARD": "guard",
    "INTERACT_WORD": "interact",
}


def _matches(sample: Sample) -> bool:
    def fits(row: dict[str, Any]) -> bool:
        if isinstance(row.get("cmd"), str):
            return "info" in row or "data" in row or row["cmd"].isupper() or row["cmd"] == "_HEARTBEAT"
        return _model_kind(row) != "" and ("uname" in row or "username" in row)

    return any(fits(row) for row in sample.objects)


def _model_kind(row: dict[str, Any]) -> str:
    """Which blivedm model an object without ``cmd`` is; empty if none."""
    if "gift_name" in row and ("coin_type" in row or "gift_num" in row):
        return "gift"
    if "guard_level" in row and ("username" in row or "user_info" in row) and "msg" not in row:
        return "guard"
    if "message" in row and ("price" in row or "rmb" in row):
        return "super_chat"
    if "ids" in row or "message_ids" in row:
        return "super_chat_delete"
    return "danmaku" if "msg" in row else ""


def _events(row: Row, ledger: Ledger) -> Sequence[ChatEvent] | NotChat:
    item = as_object(row.value)
    command = item.get("cmd")
    if command is None:
        kind, body = _model_kind(item), item
        if not kind:
            raise RowFault("found neither cmd nor a blivedm message model", field="cmd", code="chat-unknown")
    elif isinstance(command, str):
        # Since 2019 a command may carry parameters after a colon.
        name = command.partition(":")[0]
        if name not in _COMMANDS:
            return NotChat(name or "empty-cmd")
        kind = _COMMANDS[name]
        body = _body(item, name)
    else:
        raise RowFault(f"found {json_kind(command)}, expected a command name", field="cmd")
    if kind == "super_chat_delete":
        return _removed(body, ledger, row)
    if kind == "interact" and word(body.get("msg_type")) not in ("2", "4", "5"):
        return NotChat("INTERACT_WORD")
    return (_message(kind, body, ledger, row),)


def _body(item: dict[str, Any], command: str) -> dict[str, Any]:
    if command == "DANMU_MSG":
        return _from_info(item.get("info"))
    data = item.get("data")
    if not isinstance(data, dict):
        raise RowFault(f"found {json_kind(data)}, expected an object", field="data")
    return cast(dict[str, Any], data)


def _from_info(info: Any) -> dict[str, Any]:
    """The positional ``info`` array under the model's field names."""
    if not isinstance(dig(info, 1), str) or dig(info, 2, 0) is None:
        raise RowFault("expected [[...], text, [user id, user name, ...], ...]", field="info")
    extra = dig(info, 0, 15, "extra")
    if isinstance(extra, str):
        try:
            extra = json.loads(extra)
        except json.JSONDecodeError:
            extra = None
    return {
        "msg": dig(info, 1),
        "uid": dig(info, 2, 0),
        "uname": dig(info, 2, 1),
        "timestamp": dig(info, 0, 4),
        "msg_id": word(dig(extra, "id_str")),
        "reply_uname": word(dig(extra, "reply_uname")),
    }


def _message(kind: str, body: dict[str, Any], ledger: Ledger, row: Row) -> ChatMessage:
    user = body.get("user_info") or body.get("uinfo")
    name = word(body.get("uname") or body.get("username") or dig(user, "uname") or dig(user, "base", "name"))
    uid = word(body.get("uid"))
    viewer = word(body.get("open_id") or dig(user, "open_id")) or (uid if uid != "0" else "") or name
    if not viewer:
        raise RowFault("missing; expected a uid, open_id or uname", field="uname")
    text, message_kind, amount = _content(kind, body)
    if kind == "danmaku" and not isinstance(body.get("msg"), str):
        raise RowFault(f"found {json_kind(body.get('msg'))}, expected a string", field="msg")
    stamp = body.get("timestamp") or body.get("start_time") or body.get("ts")
    at = from_epoch(stamp) if isinstance(stamp, int | float) and not isinstance(stamp, bool) else None
    given = word(body.get("msg_id") or body.get("message_id") or body.get("tid"))
    if kind == "super_chat":
        # Deletions name the super chat's own id, so that is the message's id.
        given = word(body.get("message_id") or body.get("id"))
        given = f"sc:{given}" if given else ""
    return ChatMessage(
        id=given or derived_id("bilibili", row.index, viewer, word(stamp), text),
        room=ledger.room,
        viewer=viewer,
        name=name,
        text=text,
        at=ledger.at_or_last(at, row.line),
        kind=message_kind,
        amount=amount,
        source="bilibili",
    )


def _content(kind: str, body: dict[str, Any]) -> tuple[str, MessageKind, str]:
    if kind == "danmaku":
        return word(body.get("msg")), MessageKind.CHAT, ""
    if kind == "super_chat":
        price = word(body.get("price") if body.get("price") is not None else body.get("rmb"))
        return word(body.get("message")), MessageKind.PAID, f"¥{price}"
    if kind == "gift":
        gift = word(body.get("giftName") or body.get("gift_name"))
        count = word(body.get("num") or body.get("gift_num")) or "1"
        if not gift:
            raise RowFault("missing; expected the gift's name", field="giftName")
        return "", MessageKind.GIFT, f"{gift} x{count}"
    if kind == "guard":
        level = _GUARDS.get(word(body.get("guard_level")), word(body.get("gift_name")))
        count = word(body.get("num") or body.get("guard_num")) or "1"
        return "", MessageKind.MEMBER, f"{level} x{count}"
    return "", MessageKind.MEMBER, "关注"


def _removed(body: dict[str, Any], ledger: Ledger, row: Row) -> Sequence[ChatDeletion]:
    ids = body.get("ids") if body.get("ids") is not None else body.get("message_ids")
    if not isinstance(ids, list) or not ids:
        raise RowFault(f"found {json_kind(ids)}, expected a list of super chat ids", field="ids")
    at = ledger.base_at if ledger.last_at is None else ledger.last_at
    return tuple(ChatDeletion(room=ledger.room, at=at, message=f"sc:{word(one)}") for one in cast(list[Any], ids))


FORMAT = ChatFormat(
    name=NAME,
    title='blivedm event lines ({"cmd": "DANMU_MSG", ...} or its message models on each line)',
    matches=_matches,
    rows=object_lines,
    events=_events,
)
read = FORMAT.read
