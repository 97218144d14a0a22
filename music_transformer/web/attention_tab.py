"""The Attention tab: what every note and every word looked at, drawn by static/arcs.js over our routes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Response

from music_transformer.samples import TITLES
from music_transformer.web.asking import Visitor
from music_transformer.web.component import mount
from music_transformer.web.reading import Views, read_music, read_text
from music_transformer.web.session import Session

TITLE = "Attention"
_PRIVATE = {"Cache-Control": "private, max-age=3600"}


def build(session: Session) -> None:
    """The viewer."""
    mount("arcs", "mt-arcs")


def routes(session: Session) -> APIRouter:
    """Open a view of a piece or a text, then fetch its layers as bytes (see ``arc_query.ArcPack``)."""
    router = APIRouter()
    models, views = session.models, Views()

    def opened(visitor: str, view: Any) -> dict[str, Any]:
        return {"id": views.add(visitor, view), "manifest": view.manifest()}

    @router.get("/attention")
    def choices() -> dict[str, Any]:
        return {"models": {kind: models.names(kind) for kind in ("music", "text")}, "samples": TITLES}

    @router.post("/attention/music")
    def music(visitor: Visitor, order: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        return opened(visitor, read_music(session, visitor, order))

    @router.post("/attention/text")
    def text(visitor: Visitor, order: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        return opened(visitor, read_text(models, order))

    @router.get("/attention/{id}/page")
    def whole_page(visitor: Visitor, id: str) -> Response:
        from music_transformer.arc_page import page

        view = views.get(visitor, id)
        headers = {"Content-Disposition": 'attachment; filename="attention.html"'}
        return Response(page(view, view.opening()), media_type="text/html", headers=headers)

    @router.get("/attention/{id}/{kind}/{layer}")
    def layer(visitor: Visitor, id: str, kind: str, layer: int) -> Response:
        data = views.get(visitor, id).pack(kind, layer).to_bytes()
        return Response(data, media_type="application/octet-stream", headers=_PRIVATE)

    return router
