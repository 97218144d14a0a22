"""Our routes under ``/mt``: the page's files, sounds, and a visitor's pieces. Composing is in stream.py."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from importlib import resources
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from gpt_core.errors import UserError
from music_transformer.samples import TITLES
from music_transformer.web import notes, orders
from music_transformer.web.asking import Here, Own
from music_transformer.web.imports import LARGE, bring, bring_sample
from music_transformer.web.shelf import Piece

_STATIC = re.compile(r"[a-z_]+\.(js|css|svg)")
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_PRIVATE = {"Cache-Control": "private, max-age=3600"}
_FOLDER = Path(str(resources.files("music_transformer.web"))) / "static"

_large = CapacityLimiter(2)  # threads that large uploads may hold; the others wait without one
router = APIRouter()


@router.get("/static/{name}")
def static(name: str) -> Response:
    """The page's own scripts and styles."""
    file = _FOLDER / name
    if not _STATIC.fullmatch(name) or not file.is_file():
        return Response("no such file", 404)
    return Response(file.read_bytes(), media_type=_KINDS[file.suffix], headers={"Cache-Control": "no-cache"})


@router.get("/config")
def config(here: Here, own: Own) -> dict[str, Any]:
    """What the page's form offers; the first answer that gives a newcomer a cookie."""
    return {
        **orders.form(),
        "models": here.models.names("music"),
        "samples": TITLES,
        "max_upload": here.config.max_upload,
    }


@router.get("/about")
def about(here: Here, model: str | None = None) -> dict[str, Any]:
    """Which model composes and what plays."""
    return here.about(model)


@router.get("/sounds")
def sounds() -> dict[str, Any]:
    """Where each note of the sampler lies in /sounds.wav."""
    from music_transformer.sample_bank import sample_bank

    return sample_bank().manifest


@router.get("/sounds.wav")
def sounds_wav() -> Response:
    """The notes of the page's sampler."""
    from music_transformer.sample_bank import sample_bank

    return Response(sample_bank().wav, media_type="audio/wav", headers=_PRIVATE)


@router.get("/pieces")
def pieces(own: Own) -> list[dict[str, Any]]:
    """The visitor's pieces, oldest first."""
    return [dataclasses.asdict(p) for p in own.list()]


@router.post("/pieces")
async def upload(request: Request, here: Here, own: Own, name: str = "untitled") -> dict[str, Any]:
    """A MIDI file as the request's body -> a piece."""
    data = await _body(request, here.config.max_upload)
    limiter = _large if len(data) >= LARGE else None
    return dataclasses.asdict(await to_thread.run_sync(bring, own, data, name, limiter=limiter))


@router.post("/samples/{name}")
def sample(own: Own, name: str) -> dict[str, Any]:
    """One of our sample pieces -> a piece."""
    return dataclasses.asdict(bring_sample(own, name))


@router.patch("/pieces/{id}")
def change(own: Own, id: str, facts: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
    """Rename, or keep with a star."""
    return dataclasses.asdict(own.change(id, **_changes(facts)))


@router.delete("/pieces/{id}")
def delete(own: Own, id: str) -> dict[str, Any]:
    """Into the trash."""
    return dataclasses.asdict(own.delete(id))


@router.post("/pieces/{id}/restore")
def restore(own: Own, id: str) -> dict[str, Any]:
    """Back from the trash."""
    return dataclasses.asdict(own.restore(id))


@router.get("/pieces/{id}/notes")
def notes_of(own: Own, id: str) -> Response:
    """The notes for the roll, see notes.py."""
    piece = own.get(id)
    packed = notes.pack(
        own.score(id), piece.join if piece.parent or piece.kind == "take" else float("inf"), piece.until
    )
    return Response(packed, media_type="application/octet-stream", headers=_PRIVATE)


@router.get("/pieces/{id}/bars")
def bars_of(own: Own, id: str) -> list[float]:
    """Where bars begin, for the ruler."""
    return notes.bars(own.score(id))


@router.get("/pieces/{id}/midi")
def midi(own: Own, id: str, part: str = "whole") -> Response:
    """Download MIDI; ``part`` is whole or new."""
    headers = {"Content-Disposition": _attachment(own.get(id), part, "mid")}
    return Response(own.midi(id, part), media_type="audio/midi", headers=headers)


@router.get("/pieces/{id}/wav")
def wav(own: Own, id: str) -> FileResponse:
    """Download sound, rendered now and deleted when it is sent."""
    from music_transformer.audio import render_wav

    piece = own.get(id)
    folder = tempfile.TemporaryDirectory(prefix="music-transformer-")
    try:
        file = render_wav(own.score(id), Path(folder.name) / "piece.wav")
    except BaseException:
        folder.cleanup()
        raise
    headers = {"Content-Disposition": _attachment(piece, "whole", "wav")}
    return FileResponse(file, media_type="audio/wav", headers=headers, background=BackgroundTask(folder.cleanup))


async def _body(request: Request, megabytes: float) -> bytes:
    """The request's body, refused as soon as it is too large."""
    limit = int(megabytes * 1_000_000)
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > limit:
            raise UserError(f"the file is larger than {megabytes:g} MB, the most that may be uploaded here")
    if not data:
        raise UserError("the file is empty; choose a MIDI file")
    return bytes(data)


def _changes(facts: dict[str, Any]) -> dict[str, Any]:
    """Only a name and a star can be changed from outside."""
    for key, value in facts.items():
        if not (key == "name" and isinstance(value, str)) and not (key == "kept" and isinstance(value, bool)):
            raise UserError(f"{key!r:.40} of a piece cannot be changed like this; give name a text, kept true or false")
    return facts


def _attachment(piece: Piece, part: str, suffix: str) -> str:
    """The header that names a download, any characters allowed (RFC 6266)."""
    name = f"{piece.name}{' (new part)' if part == 'new' else ''}.{suffix}"
    plain = re.sub(r"[^A-Za-z0-9 ._()+-]", "_", name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
