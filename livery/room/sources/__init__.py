"""Where chat comes from: recorded chats of eight formats, and a live Twitch channel.

`open_chat` and `read_chat` read a file of any known format; `TwitchChat` joins a channel. All of them give
the same `ChatEvent`s. What the console receives over HTTP and WebSocket is not here.
"""

from livery.room.sources.detect import FORMATS, ChatLog, ChatStream, detect, open_chat, read_chat
from livery.room.sources.twitch import TwitchChat

__all__ = ["FORMATS", "ChatLog", "ChatStream", "TwitchChat", "detect", "open_chat", "read_chat"]
