"""The bytes of a MIDI file -> its header and tracks, through wrappers, junk, wrong lengths and wrong counts."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpt_core.errors import UserError
from music_transformer.midi_clock import read_grid
from music_transformer.midi_scan import scan
from music_transformer.midi_track import Track

LARGEST_FILE = 4 * 1024 * 1024
MOST_TRACKS = 0xFFFF  # the header counts them in two bytes
_FORMS = (
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"\x1f\x8b", "a gzip archive; unpack it first"),
    (b"\xfd7zXZ", "an xz archive; unpack it first"),
    (b"Rar!", "a rar archive; unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it first"),
    (b"%PDF", "a PDF document"),
    (b"ID3", "an MP3 recording"),
    (b"\xff\xfb", "an MP3 recording"),
    (b"OggS", "an Ogg recording"),
    (b"fLaC", "a FLAC recording"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"<?xml", "an XML document; if it is MusicXML, export MIDI from your notation program"),
)


@dataclass(slots=True)
class Container:
    """A MIDI file taken apart. ``starts[i]`` is where in the file the bytes of ``tracks[i]`` begin."""

    kind: int = 1
    declared: int = 0
    division: int = 480
    tracks: list[Track] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    junk_before: int = 0
    riff: bool = False
    header_cut: bool = False
    alien_chunks: int = 0
    wrong_lengths: int = 0
    junk_between: int = 0
    junk_after: int = 0
    missing: int = 0
    ticks_per_beat: int = 480
    second_looks: int = 2
    text_mode: bool = False

    @property
    def whole(self) -> bool:
        """Whether every track ends where it says it does."""
        return not self.wrong_lengths and not any(t.broken for t in self.tracks)


def open_container(data: bytes, name: str) -> Container:
    """Find the header and every track; raise UserError where the bytes are no MIDI file or too large.

    A transfer in text mode puts a carriage return before every line feed; where taking them out makes a damaged
    file whole, they are taken out.
    """
    if len(data) > LARGEST_FILE:
        raise UserError(f"{name} is larger than {LARGEST_FILE >> 20} MB, which is the most a MIDI file may have here")
    box = _open(data, name)
    if not box.whole and b"\r\n" in data:
        mended = _open(data.replace(b"\r\n", b"\n"), name)
        if mended.whole:
            mended.text_mode = True
            return mended
    return box


def _open(data: bytes, name: str) -> Container:
    start = _find_header(data)
    if start < 0:
        raise UserError(f"{name} is not a MIDI file: {_what_it_is(data)}")
    box = Container(riff=data.startswith(b"RIFF"), junk_before=start)
    pos = _read_header(data, start, box)
    _walk(data, pos, box)
    return box


def _find_header(data: bytes) -> int:
    exact = data.find(b"MThd\x00\x00\x00\x06")
    return exact if exact >= 0 else data.find(b"MThd")


def _what_it_is(data: bytes) -> str:
    if not data:
        return "it is empty (0 bytes)"
    for magic, form in _FORMS:
        if data.startswith(magic):
            return f"it is {form}"
    if data.startswith(b"RIFF") and data[8:12] == b"WAVE":
        return "it is a WAV recording"
    head = data[:1024].lstrip().lower()
    if head.startswith((b"<!doctype", b"<html", b"<title", b"<head")):
        return "it is a web page"
    return f"no header chunk 'MThd' in its {len(data):,} bytes"


def _read_header(data: bytes, start: int, box: Container) -> int:
    header = data[start + 8 : start + 14]
    box.header_cut = len(header) < 6
    header = header.ljust(6, b"\x00")
    box.kind = int.from_bytes(header[:2], "big")
    box.declared = int.from_bytes(header[2:4], "big")
    box.division = int.from_bytes(header[4:6], "big")
    box.ticks_per_beat = read_grid(box.division).ticks_per_beat
    length = int.from_bytes(data[start + 4 : start + 8], "big")
    end = start + 8 + length
    if length >= 6 and (_is_chunk(data, end) or end == len(data)):
        return end
    return start + 14


def _is_chunk(data: bytes, pos: int) -> bool:
    """Whether a chunk header that fits into the file lies at ``pos``; a track may be cut short."""
    name = data[pos : pos + 4]
    if name == b"MTrk":
        return True
    length = int.from_bytes(data[pos + 4 : pos + 8], "big")
    return len(name) == 4 and name.isascii() and name.isalnum() and pos + 8 + length <= len(data)


def _walk(data: bytes, pos: int, box: Container) -> None:
    size = len(data)
    while pos < size:
        if len(box.tracks) == MOST_TRACKS:
            box.junk_after = size - pos
            return
        if data[pos : pos + 4] == b"MTrk":
            pos = _take_track(data, pos, box)
        elif _is_chunk(data, pos):
            box.alien_chunks += 1
            pos += 8 + int.from_bytes(data[pos + 4 : pos + 8], "big")
        else:
            found = data.find(b"MTrk", pos)
            if found < 0:
                box.junk_after = size - pos
                return
            box.junk_between += found - pos
            pos = found


def _take_track(data: bytes, pos: int, box: Container) -> int:
    """Scan the track at ``pos`` and return where the next chunk should be."""
    start = pos + 8
    length = int.from_bytes(data[pos + 4 : start], "big")
    end = start + length
    found = data.find(b"MTrk", start)
    limit = found if found >= 0 else len(data)
    if found < 0 and end > len(data):
        box.missing = end - len(data)
    if 0 <= found < end:
        track, end = _scan_nested(data, start, end, limit, box)
    else:
        track = scan(data[start:end], box.ticks_per_beat)
        if not _ends_well(data, end):
            if not track.closed and track.sound:
                track = scan(data[start:limit], box.ticks_per_beat)
            end = start + track.size if track.closed else limit
    box.tracks.append(track)
    box.starts.append(start)
    box.wrong_lengths += length != end - start
    return end


def _scan_nested(data: bytes, start: int, end: int, limit: int, box: Container) -> tuple[Track, int]:
    """Another track's mark lies at ``limit``, inside the chunk: a wrong length, or those four letters in a text."""
    track = scan(data[start:limit], box.ticks_per_beat)
    if not track.closed and _ends_well(data, end) and box.second_looks:
        box.second_looks -= 1
        whole = scan(data[start:end], box.ticks_per_beat)
        if whole.closed and start + whole.size == end:
            return whole, end
    return track, limit


def _ends_well(data: bytes, end: int) -> bool:
    return end == len(data) or _is_chunk(data, end)
