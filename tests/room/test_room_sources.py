"""Every importer on rows of its format, and all of them on what goes wrong in real files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livery.errors import InputError
from livery.room.sources import ChatLog, detect, open_chat, read_chat
from livery.room.sources.irc import IrcSyntaxError, parse_line, unescape
from livery.room.sources.json_rows import array_elements
from livery.room.sources.reading import BrokenRow, Row
from livery.room.sources.times import Offset, from_epoch, parse_at, parse_offset, parse_time_of_day
from livery.types import ChatDeletion, ChatMessage, MessageKind

CHATS = Path(__file__).parents[2] / "../shared/data/chats"
real = pytest.mark.skipif(not CHATS.is_dir(), reason="the shared sample chats are not here")


def write(folder: Path, name: str, *rows: object) -> Path:
    path = folder / name
    text = "\n".join(row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def only(log: ChatLog) -> ChatMessage:
    assert log.problems == ()
    (event,) = log.events
    assert isinstance(event, ChatMessage)
    return event


def accounted(log: ChatLog) -> bool:
    return log.rows == log.chat_rows + log.bad_rows + sum(log.skipped.values())


# --------------------------------------------------------------------------------- real files


@real
@pytest.mark.parametrize(
    ("file", "format", "rows", "kinds", "deletions", "skipped", "problem_lines"),
    [
        ("youtube-chat-downloader.json", "chat-downloader", 684, {"chat": 684}, 0, {}, []),
        ("youtube-live_chat.jsonl", "yt-dlp", 49, {"chat": 47, "paid": 1}, 0, {"placeholder": 1}, []),
        (
            "twitch-irc.log",
            "twitch-irc",
            110,
            {"chat": 62, "paid": 7, "gift": 6, "member": 11, "system": 12},
            10,
            {"NOTICE": 1},
            [42],
        ),
        (
            "bilibili-record.xml",
            "bililive-xml",
            17,
            {"chat": 5, "gift": 3},
            0,
            {"metadata": 8, "record-info": 1},
            [],
        ),
    ],
)
def test_every_row_of_a_real_chat_is_accounted_for(
    file: str,
    format: str,
    rows: int,
    kinds: dict[str, int],
    deletions: int,
    skipped: dict[str, int],
    problem_lines: list[int],
) -> None:
    log = read_chat(CHATS / file, "room-1")
    assert log.format == format
    assert log.rows == rows
    assert accounted(log)
    assert Counter(e.kind for e in log.events if isinstance(e, ChatMessage)) == kinds
    assert sum(isinstance(e, ChatDeletion) for e in log.events) == deletions
    assert log.skipped == skipped
    assert [p.line for p in log.problems] == problem_lines
    assert {e.room for e in log.events} == {"room-1"}


@real
def test_the_cut_off_line_of_the_real_twitch_log_says_what_is_missing() -> None:
    (problem,) = read_chat(CHATS / "twitch-irc.log", "r").problems
    assert problem.message == "the line ends after tags; expected a command such as PRIVMSG"


@real
def test_real_chats_read_the_same_twice_with_the_same_ids() -> None:
    for file in sorted(CHATS.iterdir()):
        assert read_chat(file, "r").events == read_chat(file, "r").events


@real
def test_early_chat_downloader_times_and_members_are_read() -> None:
    log = read_chat(CHATS / "youtube-chat-downloader.json", "r")
    first, last = log.events[0], log.events[-1]
    assert isinstance(first, ChatMessage)
    assert (first.name, first.viewer, first.text) == ("viewer0001", "id2b2599b031552a31", "Techno Support")
    assert first.at == pytest.approx(1597516925.073495, abs=1e-6)
    assert last.at == pytest.approx(1597517022.243311, abs=100)
    assert len({e.id for e in log.events if isinstance(e, ChatMessage)}) == 684


@real
def test_real_youtube_paid_message_keeps_the_amount_as_shown() -> None:
    paid = [
        e
        for e in read_chat(CHATS / "youtube-live_chat.jsonl", "r").events
        if isinstance(e, ChatMessage) and e.kind is MessageKind.PAID
    ]
    assert [(m.amount, m.text) for m in paid] == [("CZK\xa020.00", "Hello from Czech Republic")]


# ---------------------------------------------------------------------------- chat-downloader


def test_new_chat_downloader_items_give_paid_gift_member_and_deletions(tmp_path: Path) -> None:
    author = {"id": "UC1", "name": "Ann", "badges": []}
    common = {"action_type": "add_chat_item", "author": author, "timestamp": 1_700_000_000_000_000}
    items = [
        {
            **common,
            "message_type": "text_message",
            "message_id": "m1",
            "message": "hi",
            "time_in_seconds": 10,
        },
        {
            **common,
            "message_type": "paid_message",
            "message_id": "m2",
            "message": "price?",
            "money": {"text": "$5.00", "amount": 5.0, "currency": "USD"},
        },
        {
            **common,
            "message_type": "paid_sticker",
            "message_id": "m3",
            "message": None,
            "money": {"amount": 2, "currency": "EUR"},
        },
        {
            **common,
            "message_type": "membership_item",
            "message_id": "m4",
            "message": None,
            "header_secondary_text": "Welcome",
        },
        {**common, "message_type": "ticker_paid_message_item", "message_id": "m2"},
        {"action_type": "mark_chat_item_as_deleted", "target_message_id": "m1", "time_in_seconds": 12},
        {
            "action_type": "mark_chat_items_by_author_as_deleted",
            "author": {"id": "UC1"},
            "time_in_seconds": 13,
        },
    ]
    path = tmp_path / "chat.txt"
    path.write_text(json.dumps(items, indent=4), encoding="utf-8")
    log = read_chat(path, "r")
    assert log.format == "chat-downloader"
    assert accounted(log)
    assert log.skipped == {"ticker": 1}
    assert log.problems == ()
    text, paid, sticker, member, one, everyone = log.events
    assert isinstance(text, ChatMessage) and isinstance(paid, ChatMessage)
    assert isinstance(sticker, ChatMessage) and isinstance(member, ChatMessage)
    assert (text.id, text.viewer, text.name, text.at) == ("m1", "UC1", "Ann", 1_700_000_000.0)
    assert (paid.kind, paid.amount) == (MessageKind.PAID, "$5.00")
    assert (sticker.kind, sticker.amount, sticker.text) == (MessageKind.GIFT, "EUR 2", "")
    assert (member.kind, member.amount) == (MessageKind.MEMBER, "Welcome")
    # Offset zero is known from the first item: epoch - 10 s.
    assert one == ChatDeletion(room="r", at=1_700_000_002.0, message="m1")
    assert everyone == ChatDeletion(room="r", at=1_700_000_003.0, viewer="UC1")


def test_twitch_items_of_chat_downloader_clear_and_ban(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "c.jsonl",
        {
            "message_type": "text_message",
            "action_type": "text_message",
            "author": {"id": 7, "name": "bo", "display_name": "Bo"},
            "message": "hello",
            "message_id": "a",
            "timestamp": 1_700_000_000_000_000,
        },
        {"action_type": "clear_chat", "message_type": "ban_user", "target_author_id": "7", "timestamp": 1},
        {"action_type": "clear_chat", "message_type": "clear_chat", "timestamp": 1_700_000_001_000_000},
    )
    message, ban, clear = read_chat(path, "r").events
    assert isinstance(message, ChatMessage) and isinstance(ban, ChatDeletion)
    assert (message.viewer, message.name) == ("7", "Bo")
    assert ban.viewer == "7" and not ban.everything
    assert clear == ChatDeletion(room="r", at=1_700_000_001.0, everything=True)


def test_a_broken_array_element_costs_only_itself(tmp_path: Path) -> None:
    good = '{"author": "A", "author_id": "a", "message": "m%d", "timestamp": 1600000000000000}'
    path = tmp_path / "chat.json"
    path.write_text(
        "[\n" + ",\n".join([good % 0, '{"author": "A", "message": oops}', good % 2]) + "\n]\n",
        encoding="utf-8",
    )
    log = read_chat(path, "r")
    assert [e.text for e in log.events if isinstance(e, ChatMessage)] == ["m0", "m2"]
    assert (log.rows, log.bad_rows) == (3, 1)
    assert log.problems[0].line == 3
    assert "not valid JSON" in log.problems[0].message


def test_an_array_without_an_end_is_read_and_warned_about(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('[{"author": "A", "author_id": "a", "message": "m", "timestamp": 1}\n', encoding="utf-8")
    log = read_chat(path, "r")
    assert len(log.events) == 1
    assert [(p.severity, p.code) for p in log.problems] == [("warning", "chat-cut-off")]


def test_an_element_cut_off_in_its_middle_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('[{"author": "A", "author_id": "a", "message": "m", "timestamp": 1},\n{"author": "B', "utf-8")
    log = read_chat(path, "r")
    assert (len(log.events), log.bad_rows, log.rows) == (1, 1, 2)
    assert log.problems[0].line == 2


def test_large_arrays_are_decoded_in_pieces_with_true_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    rows = [json.dumps({"n": n, "text": "x\\n☃" * (n % 50) * 7}) for n in range(2000)]
    path.write_text("[\n" + ",\n".join(rows) + "\n]", encoding="utf-8")
    read = list(array_elements(path))
    assert all(isinstance(row, Row) for row in read)
    assert [(r.line, r.value["n"]) for r in read if isinstance(r, Row)] == [(n + 2, n) for n in range(2000)]


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers()), max_size=8))
def test_any_array_of_objects_is_read_back(tmp_path_factory: pytest.TempPathFactory, items: list[object]) -> None:
    path = tmp_path_factory.mktemp("array") / "a.json"
    path.write_text(json.dumps(items, indent=1, ensure_ascii=False), encoding="utf-8", newline="\n")
    assert [row.value for row in array_elements(path) if isinstance(row, Row)] == items


# -------------------------------------------------------------------------------------- yt-dlp


def action(body: dict[str, object], offset: int = 1000) -> dict[str, object]:
    return {"replayChatItemAction": {"actions": [body], "videoOffsetTimeMsec": str(offset)}}


def item(renderer: str, **body: object) -> dict[str, object]:
    return {"addChatItemAction": {"item": {renderer: body}}}


def test_ytdlp_actions_of_every_kind(tmp_path: Path) -> None:
    who = {"authorName": {"simpleText": "Ann"}, "authorExternalChannelId": "UC1"}
    runs = {
        "runs": [
            {"text": "nice "},
            {"emoji": {"emojiId": "UC/x", "shortcuts": [":_heart:"], "isCustomEmoji": True}},
            {"emoji": {"emojiId": "😀", "shortcuts": [":grinning:"]}},
        ]
    }
    path = write(
        tmp_path,
        "x.live_chat.json",
        action(item("liveChatTextMessageRenderer", id="m1", timestampUsec="1700000000000000", message=runs, **who)),
        action(
            item(
                "liveChatMembershipItemRenderer",
                id="m2",
                timestampUsec="1700000001000000",
                headerSubtext={"runs": [{"text": "Welcome to "}, {"text": "Club"}]},
                **who,
            )
        ),
        action(
            item(
                "liveChatPaidStickerRenderer",
                id="m3",
                timestampUsec="1700000002000000",
                purchaseAmountText={"simpleText": "¥200"},
                **who,
            )
        ),
        action(
            item(
                "liveChatSponsorshipsGiftPurchaseAnnouncementRenderer",
                id="m4",
                timestampUsec="1700000003000000",
                authorExternalChannelId="UC2",
                header={
                    "liveChatSponsorshipsHeaderRenderer": {
                        "authorName": {"simpleText": "Bo"},
                        "primaryText": {"runs": [{"text": "Gifted 5 memberships"}]},
                    }
                },
            )
        ),
        action(
            item(
                "liveChatViewerEngagementMessageRenderer",
                id="m5",
                timestampUsec="1700000004000000",
                message={"runs": [{"text": "Welcome to live chat!"}]},
            )
        ),
        action({"addLiveChatTickerItemAction": {"item": {}}}),
        action({"addBannerToLiveChatCommand": {}}),
        action({"clickTrackingParams": "x", "markChatItemAsDeletedAction": {"targetItemId": "m1"}}, 3500),
        action({"removeChatItemAction": {"targetItemId": "m2"}}),
        action({"markChatItemsByAuthorAsDeletedAction": {"externalChannelId": "UC1"}}),
        action({"removeChatItemByAuthorAction": {"externalChannelId": "UC2"}}),
        action(
            {
                "replaceChatItemAction": {
                    "targetItemId": "m9",
                    "replacementItem": {
                        "liveChatTextMessageRenderer": {
                            "id": "m9",
                            "timestampUsec": "1700000009000000",
                            "message": {"simpleText": "late"},
                            **who,
                        }
                    },
                }
            }
        ),
        action({"somethingNewAction": {}}),
        {"clickTrackingParams": "only"},
    )
    log = read_chat(path, "r")
    assert log.format == "yt-dlp"
    assert accounted(log)
    assert log.skipped == {"ticker": 1, "banner": 1, "tracking": 1}
    assert [(p.line, p.code) for p in log.problems] == [(13, "chat-unknown")]
    messages = {e.id: e for e in log.events if isinstance(e, ChatMessage)}
    assert messages["m1"].text == "nice :_heart:😀"
    assert (messages["m1"].viewer, messages["m1"].name) == ("UC1", "Ann")
    assert (messages["m2"].kind, messages["m2"].amount) == (MessageKind.MEMBER, "Welcome to Club")
    assert (messages["m3"].kind, messages["m3"].amount) == (MessageKind.GIFT, "¥200")
    assert (messages["m4"].name, messages["m4"].amount) == ("Bo", "Gifted 5 memberships")
    assert messages["m5"].kind is MessageKind.SYSTEM
    assert messages["m9"].text == "late"
    deletions = [e for e in log.events if isinstance(e, ChatDeletion)]
    assert [(d.message, d.viewer) for d in deletions] == [("m1", ""), ("m2", ""), ("", "UC1"), ("", "UC2")]
    # The last message was at offset 1 s and 1700000004: offset 3.5 s is 2.5 s later.
    assert deletions[0].at == pytest.approx(1_700_000_006.5)


def test_one_ytdlp_line_with_several_actions_gives_one_row_each(tmp_path: Path) -> None:
    body = item(
        "liveChatTextMessageRenderer",
        id="a",
        timestampUsec="1700000000000000",
        message={"simpleText": "x"},
        authorExternalChannelId="U",
    )
    path = write(tmp_path, "f", {"replayChatItemAction": {"actions": [body, {"signalAction": {}}, body]}})
    log = read_chat(path, "r")
    assert (log.rows, log.chat_rows, log.skipped) == (3, 2, {"signal": 1})


# -------------------------------------------------------------------------------------- Twitch


@pytest.mark.parametrize(
    ("escaped", "meant"),
    [
        (r"a\sb", "a b"),
        (r"semi\:colon", "semi;colon"),
        (r"back\\slash", "back\\slash"),
        (r"line\r\n", "line\r\n"),
        (r"odd\x", "oddx"),
        ("end\\", "end"),
        (r"\\s", r"\s"),
    ],
)
def test_irc_tag_values_are_unescaped_as_ircv3_says(escaped: str, meant: str) -> None:
    assert unescape(escaped) == meant


def test_an_irc_line_falls_into_tags_prefix_command_and_parameters() -> None:
    line = parse_line(r"@id=1;flag;system-msg=a\sb :nick!user@host PRIVMSG #room :hello: there")
    assert line.tags == {"id": "1", "flag": "", "system-msg": "a b"}
    assert (line.nick, line.command, line.params) == ("nick", "PRIVMSG", ("#room", "hello: there"))
    assert parse_line("PING :tmi.twitch.tv").params == ("tmi.twitch.tv",)
    assert parse_line(":srv 001 me :Welcome").command == "001"
    with pytest.raises(IrcSyntaxError, match="found 'hello,' where a command"):
        parse_line("hello, world")


TWITCH = {
    "bits": (
        (
            "@bits=100;id=a;user-id=1;display-name=Ann;tmi-sent-ts=1700000000500 "
            ":ann!ann@ann PRIVMSG #c :Cheer100 price?"
        ),
        MessageKind.PAID,
        "100 bits",
        "Cheer100 price?",
    ),
    "pinned": (
        (
            "@pinned-chat-paid-amount=1400;pinned-chat-paid-exponent=2;pinned-chat-paid-currency=NOK;id=a;"
            "user-id=1;tmi-sent-ts=1 :a!a@a PRIVMSG #c :hi"
        ),
        MessageKind.PAID,
        "NOK 14.00",
        "hi",
    ),
    "action": (
        "@id=a;user-id=1;tmi-sent-ts=1 :a!a@a PRIVMSG #c :\x01ACTION waves\x01",
        MessageKind.CHAT,
        "",
        "waves",
    ),
    "resub": (
        (
            "@msg-id=resub;msg-param-sub-plan=2000;msg-param-cumulative-months=6;id=a;user-id=1;login=a;"
            "tmi-sent-ts=1 :tmi.twitch.tv USERNOTICE #c :six months!"
        ),
        MessageKind.MEMBER,
        "Tier 2 sub, month 6",
        "six months!",
    ),
    "subgift": (
        (
            "@msg-id=subgift;msg-param-sub-plan=1000;id=a;user-id=1;login=a;tmi-sent-ts=1;"
            r"system-msg=a\sgifted :tmi.twitch.tv USERNOTICE #c"
        ),
        MessageKind.GIFT,
        "Tier 1 sub x1",
        "",
    ),
    "mysterygift": (
        (
            "@msg-id=submysterygift;msg-param-sub-plan=1000;msg-param-mass-gift-count=5;id=a;user-id=1;"
            "tmi-sent-ts=1 :tmi.twitch.tv USERNOTICE #c"
        ),
        MessageKind.GIFT,
        "Tier 1 sub x5",
        "",
    ),
    "raid": (
        (
            r"@msg-id=raid;id=a;user-id=1;tmi-sent-ts=1;system-msg=2\sraiders\sjoined! "
            ":tmi.twitch.tv USERNOTICE #c"
        ),
        MessageKind.SYSTEM,
        "",
        "2 raiders joined!",
    ),
    "announcement": (
        "@msg-id=announcement;id=a;user-id=1;tmi-sent-ts=1;system-msg= :tmi USERNOTICE #c :sale at 8",
        MessageKind.SYSTEM,
        "",
        "sale at 8",
    ),
}


@pytest.mark.parametrize("case", TWITCH)
def test_twitch_messages_and_notices(tmp_path: Path, case: str) -> None:
    line, kind, amount, text = TWITCH[case]
    message = only(read_chat(write(tmp_path, "irc.log", line), "r"))
    assert (message.kind, message.amount, message.text, message.viewer) == (kind, amount, text, "1")


def test_twitch_moderation_and_state_lines(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "irc.log",
        "@tmi-sent-ts=1000000;target-msg-id=m1;login=a :tmi.twitch.tv CLEARMSG #c :bad",
        "@tmi-sent-ts=2000000;target-user-id=9;ban-duration=600 :tmi.twitch.tv CLEARCHAT #c spammer",
        "@tmi-sent-ts=3000000 :tmi.twitch.tv CLEARCHAT #c",
        "@room-id=1 :tmi.twitch.tv ROOMSTATE #c",
        ":a!a@a JOIN #c",
        "PING :tmi.twitch.tv",
    )
    log = read_chat(path, "r")
    assert log.events == (
        ChatDeletion(room="r", at=1000.0, message="m1"),
        ChatDeletion(room="r", at=2000.0, viewer="9"),
        ChatDeletion(room="r", at=3000.0, everything=True),
    )
    assert log.skipped == {"ROOMSTATE": 1, "JOIN": 1, "PING": 1}


def test_a_twitch_ban_names_the_same_viewer_as_the_messages_it_removes(tmp_path: Path) -> None:
    tagged = "@id=a;user-id=9;tmi-sent-ts=1 :bo!bo@bo PRIVMSG #c :x"
    bare = ":bo!bo@bo PRIVMSG #c :x"
    log = read_chat(
        write(tmp_path, "l", tagged, bare, "@target-user-id=9 :t CLEARCHAT #c bo", ":t CLEARCHAT #c bo"), "r"
    )
    first, second, by_id, by_login = log.events
    assert isinstance(first, ChatMessage) and isinstance(second, ChatMessage)
    assert isinstance(by_id, ChatDeletion) and isinstance(by_login, ChatDeletion)
    assert (first.viewer, by_id.viewer) == ("9", "9")
    assert (second.viewer, by_login.viewer) == ("bo", "bo")


def test_only_line_feeds_end_an_irc_line(tmp_path: Path) -> None:
    path = write(tmp_path, "l", "@id=a;user-id=9;tmi-sent-ts=1 :bo!bo@bo PRIVMSG #c :one\u2028two\x85three")
    assert only(read_chat(path, "r")).text == "one\u2028two\x85three"


# ------------------------------------------------------------------------------------ Bilibili

XML_HEAD = (
    '<?xml version="1.0" encoding="utf-8"?>\n<i>\n'
    '<BililiveRecorderRecordInfo roomid="1" start_time="2022-03-20T19:51:23+08:00" />\n'
)
D = '<d p="1.5,1,25,16777215,1647777085000,0,42,0" user="Ann">{}</d>\n'


def test_bililive_elements_of_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    path.write_text(
        XML_HEAD
        + D.format("几号链接 &amp; &lt;多少钱&gt;")
        + '<sc ts="2" user="Bo" uid="7" price="30" time="60">有货吗</sc>\n'
        + '<gift ts="3.25" user="Cy" giftname="小心心" giftcount="3" />\n'
        + '<guard ts="4" user="Di" level="3" count="1" />\n'
        + '<poll ts="5" />\n</i>\n',
        encoding="utf-8",
    )
    log = read_chat(path, "r")
    assert accounted(log)
    assert [(p.line, p.code) for p in log.problems] == [(8, "chat-unknown")]
    danmaku, sc, gift, guard = log.events
    assert isinstance(danmaku, ChatMessage) and isinstance(sc, ChatMessage)
    assert isinstance(gift, ChatMessage) and isinstance(guard, ChatMessage)
    assert (danmaku.text, danmaku.viewer, danmaku.at) == ("几号链接 & <多少钱>", "42", 1647777085.0)
    assert (sc.kind, sc.text, sc.amount, sc.viewer) == (MessageKind.PAID, "有货吗", "¥30", "7")
    assert (gift.kind, gift.amount, gift.at) == (MessageKind.GIFT, "小心心 x3", 1647777083.0 + 3.25)
    assert (guard.kind, guard.amount) == (MessageKind.MEMBER, "舰长 x1")


def test_a_control_character_in_one_danmaku_costs_only_that_row(tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    path.write_text(XML_HEAD + D.format("a") + D.format("b\x08") + D.format("c") + "</i>\n", encoding="utf-8")
    log = read_chat(path, "r")
    assert [e.text for e in log.events if isinstance(e, ChatMessage)] == ["a", "c"]
    assert [p.line for p in log.problems] == [5]
    assert accounted(log)
    assert log.bad_rows == 1


def test_a_recording_that_was_cut_off_is_read_to_its_end_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    path.write_text(XML_HEAD + D.format("a") + '<d p="2,1', encoding="utf-8")
    log = read_chat(path, "r")
    assert len(log.events) == 1
    assert [(p.severity, p.code) for p in log.problems] == [("warning", "chat-cut-off")]


def test_an_entity_bomb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    path.write_text(
        '<?xml version="1.0"?>\n<!DOCTYPE i [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n<i><d>&b;</d></i>\n',
        encoding="utf-8",
    )
    with pytest.raises(InputError, match="document type declaration") as caught:
        read_chat(path, "r")
    assert caught.value.problems[0].line == 2


def danmu(text: str = "多少钱", **extra: object) -> dict[str, object]:
    info: list[object] = [[0, 1, 25, 5566168, 1647777083220, 1, 0, "ab", 0, 0, 0, "", 0, "{}", "{}", extra]]
    info += [text, [42, "Ann", 0, 0, 0, 10000, 1, ""], [], [0, 0, 0, ">50000"], ["", ""], 0, 0]
    return {"cmd": "DANMU_MSG:4:0:2:2:2:0", "info": info}


def test_blivedm_commands(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "events.jsonl",
        {"cmd": "ONLINE_RANK_COUNT", "data": {"count": 3}},
        danmu(extra=json.dumps({"id_str": "abc123"})),
        {
            "cmd": "SUPER_CHAT_MESSAGE",
            "data": {
                "id": 55,
                "price": 30,
                "message": "有货吗",
                "uid": 7,
                "user_info": {"uname": "Bo"},
                "start_time": 1647777090,
            },
        },
        {"cmd": "SUPER_CHAT_MESSAGE_DELETE", "data": {"ids": [55, 56]}},
        {
            "cmd": "SEND_GIFT",
            "data": {
                "giftName": "辣条",
                "num": 5,
                "uname": "Cy",
                "uid": 8,
                "timestamp": 1647777091,
                "tid": "t1",
            },
        },
        {
            "cmd": "GUARD_BUY",
            "data": {"uid": 9, "username": "Di", "guard_level": 3, "num": 1, "start_time": 1647777092},
        },
        {
            "cmd": "INTERACT_WORD",
            "data": {"uid": 1, "uname": "Ed", "msg_type": 1, "timestamp": 1647777093},
        },
        {
            "cmd": "INTERACT_WORD",
            "data": {"uid": 1, "uname": "Ed", "msg_type": 2, "timestamp": 1647777094},
        },
        {"cmd": "DANMU_MSG", "info": []},
    )
    log = read_chat(path, "r")
    assert log.format == "blivedm"
    assert accounted(log)
    assert log.skipped == {"ONLINE_RANK_COUNT": 1, "INTERACT_WORD": 1}
    assert [(p.line, p.field) for p in log.problems] == [(9, "info")]
    chat, paid, first_gone, second_gone, gift, guard, follow = log.events
    assert isinstance(chat, ChatMessage) and isinstance(paid, ChatMessage) and isinstance(gift, ChatMessage)
    assert isinstance(guard, ChatMessage) and isinstance(follow, ChatMessage)
    assert (chat.id, chat.viewer, chat.name, chat.text) == ("abc123", "42", "Ann", "多少钱")
    assert chat.at == 1647777083.22
    assert (paid.id, paid.kind, paid.amount, paid.name) == ("sc:55", MessageKind.PAID, "¥30", "Bo")
    assert first_gone == ChatDeletion(room="r", at=1647777090.0, message="sc:55")
    assert second_gone == ChatDeletion(room="r", at=1647777090.0, message="sc:56")
    assert (gift.kind, gift.amount) == (MessageKind.GIFT, "辣条 x5")
    assert (guard.kind, guard.amount, guard.name) == (MessageKind.MEMBER, "舰长 x1", "Di")
    assert (follow.kind, follow.amount) == (MessageKind.MEMBER, "关注")


def test_blivedm_models_and_open_platform_commands(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "models.jsonl",
        {"msg": "这个多少", "uname": "Ann", "uid": 42, "timestamp": 1647777083220, "dm_type": 0},
        {
            "gift_name": "小花花",
            "num": 2,
            "uname": "Bo",
            "uid": 0,
            "coin_type": "silver",
            "timestamp": 1647777090,
        },
        {
            "cmd": "LIVE_OPEN_PLATFORM_DM",
            "data": {
                "uname": "Cy",
                "open_id": "o-1",
                "msg": "在吗",
                "msg_id": "mid",
                "timestamp": 1647777091,
            },
        },
    )
    log = read_chat(path, "r")
    assert log.format == "blivedm"
    model, gift, open_platform = log.events
    assert isinstance(model, ChatMessage) and isinstance(gift, ChatMessage)
    assert isinstance(open_platform, ChatMessage)
    assert (model.text, model.viewer) == ("这个多少", "42")
    assert (gift.kind, gift.viewer) == (MessageKind.GIFT, "Bo")
    assert (open_platform.id, open_platform.viewer) == ("mid", "o-1")


# ------------------------------------------------------------------------------- oba-live-tool


def test_oba_events_of_every_type(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "oba.json",
        {"msg_type": "comment", "msg_id": "1", "nick_name": "小红", "content": "怎么买", "time": "23:59:58"},
        {"msg_type": "room_enter", "msg_id": "2", "nick_name": "大壮", "user_id": "9", "time": "23:59:59"},
        {"msg_type": "room_follow", "msg_id": "3", "nick_name": "大壮", "user_id": "9", "time": "0:00:03"},
        {
            "msg_type": "live_order",
            "msg_id": "4",
            "nick_name": "阿狸",
            "order_status": "已付款",
            "product_title": "防晒霜",
            "order_ts": 1700000000,
        },
        {
            "msg_type": "xiaohongshu_comment",
            "msg_id": "5",
            "nick_name": "n",
            "user_id": "u",
            "content": "有货吗",
            "time": 1700000000123,
        },
        {"msg_type": "mystery", "msg_id": "6", "nick_name": "n", "time": "1:00:00"},
    )
    shanghai = ZoneInfo("Asia/Shanghai")
    base = parse_at("2026-06-18T20:00:00+08:00", shanghai)
    assert isinstance(base, float)
    log = read_chat(path, "r", base_at=base, zone=shanghai)
    assert log.format == "oba-live-tool"
    assert accounted(log)
    assert log.skipped == {"room_enter": 1}
    assert [(p.line, p.code) for p in log.problems] == [(6, "chat-unknown")]
    comment, follow, order, red = log.events
    assert isinstance(comment, ChatMessage) and isinstance(follow, ChatMessage)
    assert isinstance(order, ChatMessage) and isinstance(red, ChatMessage)
    assert comment.at == base + 4 * 3600 - 2
    assert follow.at == base + 4 * 3600 + 3  # past midnight goes on, not back a day
    assert (follow.kind, follow.amount, follow.text) == (MessageKind.MEMBER, "关注", "")
    assert (order.kind, order.amount) == (MessageKind.SYSTEM, "防晒霜 已付款")
    assert (red.source, red.at) == ("xiaohongshu", 1700000000.123)


# --------------------------------------------------------------------------------------- plain


def test_plain_jsonl_columns_aliases_and_deletions(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "mine.jsonl",
        {"viewer": "u1", "name": "Ann", "text": "how much?", "at": "2026-06-18T19:30:00Z", "id": "a"},
        {"User": "Bo", "Message": "in stock?", "Timestamp": 1781811001.5},
        {"author": {"id": "u3", "name": "Cy"}, "content": "hi", "time": "0:05"},
        {"viewer": "u1", "kind": "paid", "amount": "$5", "text": "please", "at": 1781811002000},
        {"kind": "delete", "id": "a", "at": 1781811003},
        {"kind": "delete", "viewer": "u1", "at": 1781811004},
        {"kind": "clear", "at": 1781811005},
        {"kind": "sing", "text": "la", "at": 1781811006},
        {"text": "", "at": 1781811006},
        {"text": "no time", "viewer": "u9"},
        "not json",
        "[1, 2]",
    )
    log = read_chat(path, "r", base_at=1000.0)
    assert log.format == "jsonl"
    assert accounted(log)
    ann, bo, cy, paid, one, viewer, clear, untimed = log.events
    assert isinstance(ann, ChatMessage) and isinstance(bo, ChatMessage) and isinstance(cy, ChatMessage)
    assert isinstance(paid, ChatMessage) and isinstance(untimed, ChatMessage)
    assert (ann.id, ann.viewer, ann.at) == ("a", "u1", 1781811000.0)
    assert (bo.viewer, bo.name, bo.at) == ("Bo", "Bo", 1781811001.5)
    assert (cy.viewer, cy.name, cy.at) == ("u3", "Cy", 1005.0)
    assert (paid.kind, paid.amount, paid.at) == (MessageKind.PAID, "$5", 1781811002.0)
    assert one == ChatDeletion(room="r", at=1781811003.0, message="a")
    assert viewer == ChatDeletion(room="r", at=1781811004.0, viewer="u1")
    assert clear == ChatDeletion(room="r", at=1781811005.0, everything=True)
    assert untimed.at == 1781811006.0
    assert [(p.line, p.field, p.severity) for p in log.problems] == [
        (8, "kind", "error"),
        (9, "text", "error"),
        (10, "", "warning"),
        (11, "", "error"),
        (12, "", "error"),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv_in_every_encoding_and_separator(tmp_path: Path, encoding: str, separator: str) -> None:
    path = tmp_path / "chat.dat"
    rows = [["昵称", "内容", "时间"], ["小红", '"3号链接\n多少钱"', "0:07"], ["大壮", "有货吗", "0:09"]]
    path.write_text("\r\n".join(separator.join(row) for row in rows) + "\r\n", encoding=encoding, newline="")
    log = read_chat(path, "r", base_at=100.0)
    assert log.format == "csv"
    assert log.problems == ()
    assert [(e.viewer, e.text, e.at) for e in log.events if isinstance(e, ChatMessage)] == [
        ("小红", "3号链接\n多少钱", 107.0),
        ("大壮", "有货吗", 109.0),
    ]


def test_bad_csv_rows_are_named_by_the_line_they_begin_on(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "chat.csv",
        "user,text,at",
        'a,"two\nlines",1',
        "b,too,many,cells",
        "c,fine,2",
        "d,when,yesterday",
        "",
        'e,"open quote,3',
    )
    log = read_chat(path, "r")
    assert accounted(log)
    assert [(p.line, p.field) for p in log.problems] == [(4, ""), (6, "at"), (8, "")]
    assert log.problems[0].message == "found 4 cells, expected 3 as in the header"
    assert "found 'yesterday'" in log.problems[1].message
    assert [e.text for e in log.events if isinstance(e, ChatMessage)] == ["two\nlines", "fine"]


# -------------------------------------------------------------------------- opening and errors


def test_strict_reading_stops_at_the_first_bad_row(tmp_path: Path) -> None:
    path = write(tmp_path, "m.jsonl", {"text": "a", "at": 1e9}, {"text": 5, "at": 1e9}, {"text": "c", "at": 1e9})
    stream = open_chat(path, "r", strict=True)
    assert isinstance(next(stream), ChatMessage)
    with pytest.raises(InputError, match=r"m\.jsonl:2: text: found a number, expected a string"):
        next(stream)


def test_a_stream_accounts_for_what_was_read_so_far(tmp_path: Path) -> None:
    path = write(tmp_path, "m.jsonl", *({"text": str(n), "at": 1e9} for n in range(5)))
    stream = open_chat(path, "r")
    next(stream)
    next(stream)
    assert stream.ledger.rows == 2
    assert len(list(stream)) == 3
    assert stream.ledger.rows == 5


def test_a_byte_that_is_not_utf8_costs_only_its_line(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"text": "a", "at": 1e9}\n{"text": "\xff", "at": 1e9}\n{"text": "c", "at": 1e9}\n')
    log = read_chat(path, "r")
    assert [p.line for p in log.problems] == [2]
    assert "byte 0xff" in log.problems[0].message
    assert len(log.events) == 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "the file is empty"),
        ("  \n\n", "the file is empty"),
        ("Dear diary,\ntoday I bought a lamp.\n", "no known chat format"),
        ("a,b\n1,2\n", "no known chat format"),
        ('{"x": 1}\n', "no known chat format"),
        ("<html><body>hello</body></html>", "no known chat format"),
    ],
)
def test_content_of_no_known_format_is_refused_with_the_list(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "x"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=expected) as caught:
        read_chat(path, "r")
    if "known" in expected:
        assert "chat-downloader" in str(caught.value)
        assert "twitch-irc" in str(caught.value)


def test_missing_files_folders_and_unknown_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_chat(tmp_path / "none", "r")
    with pytest.raises(InputError, match="a folder"):
        open_chat(tmp_path, "r")
    path = write(tmp_path, "m.jsonl", {"text": "a"})
    with pytest.raises(InputError, match="unknown chat format 'discord'"):
        open_chat(path, "r", "discord")


def test_a_named_format_is_used_without_detection(tmp_path: Path) -> None:
    path = write(tmp_path, "m", {"msg_type": "comment", "nick_name": "a", "content": "x", "time": 1700000000})
    assert detect(path).name == "oba-live-tool"
    assert read_chat(path, "r", "jsonl").events[0].at == 1700000000.0


LINES = st.lists(
    st.one_of(
        st.text(alphabet=st.characters(exclude_characters="\r\n"), max_size=30),
        st.builds(json.dumps, st.dictionaries(st.sampled_from(["text", "at", "kind", "id"]), st.text(max_size=4))),
        st.just('{"text": "ok", "at": 1e9}'),
    ),
    max_size=12,
)


@given(LINES)
def test_no_row_is_ever_lost_whatever_the_lines_hold(tmp_path_factory: pytest.TempPathFactory, rows: list[str]) -> None:
    path = tmp_path_factory.mktemp("any") / "m"
    path.write_bytes("\n".join(rows).encode("utf-8", "surrogatepass"))
    nonempty = sum(1 for row in "\n".join(rows).removeprefix("\ufeff").split("\n") if row.strip())
    for format in ("jsonl", "twitch-irc"):
        if format == "jsonl" and "".join(rows).lstrip("\ufeff \t").startswith("["):
            continue
        log = read_chat(path, "r", format)
        assert accounted(log)
        assert log.rows == nonempty
        errors = [p for p in log.problems if p.severity == "error"]
        assert len(errors) == log.bad_rows
        for event in log.events:
            repr(event).encode()  # no half of a surrogate pair gets past the importers


def test_half_a_surrogate_pair_becomes_a_replacement_character(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text('{"text": "a \\ud83d b", "viewer": "\\udc00"}\n{"text": "\\ud83d\\ude00 hm"}\n', encoding="utf-8")
    first, second = read_chat(path, "r").events
    assert isinstance(first, ChatMessage)
    assert isinstance(second, ChatMessage)
    assert (first.text, first.viewer, second.text) == ("a \ufffd b", "\ufffd", "\U0001f600 hm")


# --------------------------------------------------------------------------------------- times


def test_epochs_of_four_units_are_told_apart() -> None:
    for value in (1_700_000_000, 1_700_000_000_000, 1_700_000_000_000_000, 1_700_000_000_000_000_000):
        assert from_epoch(value) == 1_700_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0:07", 7), ("-0:03", -3), ("1:02:03.5", 3723.5), ("90:00", 5400), ("7", None), ("x", None)],
)
def test_clock_texts_are_offsets(text: str, seconds: float | None) -> None:
    assert parse_offset(text) == seconds


def test_points_in_time_as_people_write_them() -> None:
    zone = ZoneInfo("Asia/Shanghai")
    assert parse_at("2026/06/18 19:30:00", zone) == 1781782200.0
    assert parse_at("2026-06-18T11:30:00Z", zone) == 1781782200.0
    assert parse_at("12.5", zone) == Offset(12.5)
    assert parse_at("soon", zone) is None
    assert parse_at(float("nan"), zone) is None
    assert parse_at(True, zone) is None


@pytest.mark.parametrize(
    ("text", "hour"),
    [("20:31:05", 20), ("8:31:05 PM", 20), ("下午8:31:05", 20), ("上午8:31:05", 8), ("12:31:05 AM", 0)],
)
def test_wall_clocks_of_several_locales(text: str, hour: int) -> None:
    zone = ZoneInfo("UTC")
    assert parse_time_of_day(text, near=86_400 * 100 + 43_200, zone=zone) == 86_400 * 100 + hour * 3600 + 1865


def test_what_is_no_wall_clock_is_not_guessed() -> None:
    for text in ("25:00:00", "8.30", "tea time"):
        assert parse_time_of_day(text, near=0.0, zone=ZoneInfo("UTC")) is None


def test_broken_rows_say_where(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[\n{}\n,\n{x}\n]", encoding="utf-8")
    assert [type(r) for r in array_elements(path)] == [Row, BrokenRow]


def test_numbers_and_characters_out_of_all_bounds_cost_only_their_row(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "m.jsonl",
        {"text": "a", "at": 1e9},
        '{"text": "b", "at": ' + "9" * 5000 + "}",
        '{"text": "c", "at": ' + "9" * 400 + "}",
        '{"text": "d", "at": 1e400}',
        '{"text": "half \\ud83d pair \\ud83d\\ude00", "at": 1e9}',
    )
    log = read_chat(path, "r")
    assert accounted(log)
    assert [p.line for p in log.problems] == [2, 3, 4]
    texts = [e.text for e in log.events if isinstance(e, ChatMessage)]
    assert texts == ["a", "half \ufffd pair 😀"]
    huge = '{"author": "A", "author_id": "a", "message": "m", "timestamp": %s}'
    log = read_chat(write(tmp_path, "c.jsonl", huge % ("9" * 300), huge % 1), "r")
    assert (log.bad_rows, log.chat_rows) == (1, 1)
    line = "@id=a;user-id=9;tmi-sent-ts=%s;bits=1 :bo!bo@bo PRIVMSG #c :x"
    log = read_chat(write(tmp_path, "l", line % "7\u00b2", line % ("9" * 5000), line % 5000), "r")
    assert [e.at for e in log.events] == [0.0, 0.0, 5.0]
