"""The host's voice: how text is read aloud, engines that synthesise it, and the queue they speak through.

`open_speech` turns a URI into a `SpeechQueue`, which is what a room speaks with. Engines: espeak-ng inside
this process, any ``/v1/audio/speech`` server, or no voice at all, with time enough to read the subtitles.
"""

from livery.room.speech.output import SpeechQueue, SpeechTrouble, open_speech
from livery.room.speech.voice import SpeechError, Utterance, Voice, loudness_envelope

__all__ = [
    "SpeechError",
    "SpeechQueue",
    "SpeechTrouble",
    "Utterance",
    "Voice",
    "loudness_envelope",
    "open_speech",
]
