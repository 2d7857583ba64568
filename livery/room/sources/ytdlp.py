"""YouTube live chat as yt-dlp writes it to ``*.live_chat.json``: one ``replayChatItemAction`` a line.

A row here is one action: a line may hold several. The shapes are YouTube's own and undocumented; what is
not in the tables below is reported as a problem, never guessed. Tickers and banners repeat messages that
stand in the file already and are counted, not chat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from livery.room.sources.json_rows import object_lines
from livery.room.sources.reading import (
    BrokenRow,
    ChatFormat,
    FileNote,
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
from livery.types import ChatDeletion, ChatEvent, ChatMessage, MessageKind

NAME = "yt-dlp"

_WRAPPER = "replayChatItemAction"
_SIDE_KEYS = {"clickTrackingParams", "videoOffsetTimeMsec", "isLive"}
_ONE_REMOVED = {"markChatItemAsDeletedAction", "removeChatItemAction"}
_VIEWER_REMOVED = {
    "markChatItemsByAuthorAsDeletedAction",
    "removeChatItemByAuthorAction",
    "removeChatItemsByAuthorAction",
}
_NOT_CHAT = {
    "addLiveChatTickerItemAction": "ticker",
    "removeLiveChatTickerItemAction": "ticker",
    "addBannerToLiveChatCommand": "banner",
    "removeBannerForLiveChatCommand": "banner",
    "updateLiveChatPollAction": "poll",
    "showLiveChatActionPanelAction": "panel",
    "updateLiveChatActionPanelAction": "panel",
    "closeLiveChatActionPanelAction": "panel",
    "changeEngagementPanelVisibilityAction": "panel",
    "showLiveChatTooltipCommand": "tooltip",
    "showLiveChatSurveyCommand": "survey",
    "showLiveChatDialogAction": "dialog",
    "replaceLiveChatRendererAction": "renderer",
    "liveChatReportModerationStateCommand": "moderation-state",
    "showLiveChatItemEndpoint": "endpoint",
    "signalAction": "signal",
    "authorBadgeUpdateCommand": "badge",
}
_RENDERERS = {
    "liveChatTextMessageRenderer": MessageKind.CHAT,
    "liveChatPaidMessageRenderer": MessageKind.PAID,
    "liveChatPaidStickerRenderer": MessageKind.GIFT,
    "liveChatMembershipItemRenderer": MessageKind.MEMBER,
    "liveChatSponsorshipsGiftPurchaseAnnouncementRenderer": MessageKind.GIFT,
    "liveChatSponsorshipsGiftRedemptionAnnouncementRenderer": MessageKind.MEMBER,
    "giftMessageViewModel": MessageKind.GIFT,
    "liveChatViewerEngagementMessageRenderer": MessageKind.SYSTEM,
    "liveChatModeChangeMessageRenderer": MessageKind.SYSTEM,
    "liveChatDonationAnnouncementRenderer": MessageKind.SYSTEM,
    "liveChatPurchasedProductMessageRenderer": MessageKind.SYSTEM,
}


def _matches(sample: Sample) -> bool:
    return any(
        _WRAPPER in row or "addChatItemAction" in row or "addLiveChatTickerItemAction" in row for row in sample.objects
    )


def _rows(path: Path) -> Iterator[Row | BrokenRow | FileNote]:
    index = 0
    for row in object_lines(path):
        if not isinstance(row, Row):
            yield row
            index += isinstance(row, BrokenRow)
            continue
        wrapper = dig(row.value, _WRAPPER)
        actions = [row.value] if wrapper is None else dig(wrapper, "actions")
        offset = word(dig(wrapper, "videoOffsetTimeMsec"))
        if not isinstance(actions, list) or not actions:
            yield BrokenRow(row.line, f"{_WRAPPER}.actions: found {json_kind(actions)}, expected a list")
            index += 1
            continue
        for action in cast(list[Any], actions):
            yield Row(row.line, index, (action, offset))
            index += 1


def _events(row: Row, ledger: Ledger) -> Sequence[ChatEvent] | NotChat:
    raw, offset_text = cast(tuple[Any, str], row.value)
    action = as_object(raw)
    offset = float(offset_text) / 1000 if offset_text.lstrip("-").isdigit() else None
    keys = [key for key in action if key not in _SIDE_KEYS]
    if not keys:
        return NotChat("tracking")
    key = keys[0]
    body = action[key]
    if key == "addChatItemAction":
        return _item(dig(body, "item"), offset, row, ledger)
    if key == "replaceChatItemAction":
        return _item(dig(body, "replacementItem"), offset, row, ledger)
    if key in _NOT_CHAT:
        return NotChat(_NOT_CHAT[key])
    if key in _ONE_REMOVED | _VIEWER_REMOVED:
        field = "targetItemId" if key in _ONE_REMOVED else "externalChannelId"
        target = word(dig(body, field))
        if not target:
            raise RowFault("missing; expected what is removed", field=f"{key}.{field}")
        at = ledger.at_or_last(None if offset is None else ledger.at_offset(offset), row.line)
        if key in _ONE_REMOVED:
            return (ChatDeletion(room=ledger.room, at=at, message=target),)
        return (ChatDeletion(room=ledger.room, at=at, viewer=target),)
    raise RowFault(f"unknown action {key!r}", field=key, code="chat-unknown")


def _item(item: Any, offset: float | None, row: Row, ledger: Ledger) -> Sequence[ChatEvent] | NotChat:
    if not isinstance(item, dict) or not item:
        raise RowFault(f"found {json_kind(item)}, expected a chat item", field="addChatItemAction.item")
    renderer, body = next(iter(cast(dict[str, Any], item).items()))
    if renderer == "liveChatPlaceholderItemRenderer":
        return NotChat("placeholder")
    kind = _RENDERERS.get(renderer)
    if kind is None:
        raise RowFault(f"unknown chat item {renderer!r}", field=renderer, code="chat-unknown")
    stamp = word(dig(body, "timestampUsec"))
    if stamp.isdigit():
        at: float | None = int(stamp) / 1e6
        if offset is not None:
            ledger.origin = at - offset
    else:
        at = None if offset is None else ledger.at_offset(offset)
    header = dig(body, "header", "liveChatSponsorshipsHeaderRenderer")
    name = shown(dig(body, "authorName")) or shown(dig(header, "authorName"))
    viewer = word(dig(body, "authorExternalChannelId")) or name
    if not viewer and kind is not MessageKind.SYSTEM:
        raise RowFault("missing; expected the author's channel", field=f"{renderer}.authorExternalChannelId")
    text = shown(dig(body, "message")) or (shown(dig(body, "text")) if kind is MessageKind.SYSTEM else "")
    if kind is MessageKind.CHAT and not text:
        raise RowFault("no text in its runs", field=f"{renderer}.message")
    message = ChatMessage(
        id=word(dig(body, "id")) or derived_id(NAME, row.index, viewer, stamp, text),
        room=ledger.room,
        viewer=viewer or "youtube",
        name=name,
        text=text,
        at=ledger.at_or_last(at, row.line),
        kind=kind,
        amount=_amount(body, header),
        source="youtube",
    )
    return (message,)


def _amount(body: Any, header: Any) -> str:
    for candidate in (
        dig(body, "purchaseAmountText"),
        dig(body, "headerPrimaryText"),
        dig(body, "headerSubtext"),
        dig(header, "primaryText"),
    ):
        if text := shown(candidate):
            return text
    return ""


def shown(text: Any) -> str:
    """YouTube's text object as plain text: ``simpleText``, ``content``, or runs with emoji.

    A channel's own emoji becomes its shortcut (``:_heart:``); a Unicode emoji stays itself.
    """
    simple = dig(text, "simpleText")
    if not isinstance(simple, str):
        simple = dig(text, "content")
    if isinstance(simple, str):
        return simple
    runs = dig(text, "runs")
    if not isinstance(runs, list):
        return ""
    return "".join(_run(run) for run in cast(list[Any], runs))


def _run(run: Any) -> str:
    emoji = dig(run, "emoji")
    if emoji is None:
        return word(dig(run, "text"))
    shortcut = word(dig(emoji, "shortcuts", 0))
    character = word(dig(emoji, "emojiId"))
    return shortcut if dig(emoji, "isCustomEmoji") or not character else character


FORMAT = ChatFormat(
    name=NAME,
    title='yt-dlp live_chat lines ({"replayChatItemAction": ...} on each line)',
    matches=_matches,
    rows=_rows,
    events=_events,
)
read = FORMAT.read
