"""One HTML file that shows an attention view by itself: the app's own viewer, the tokens and the packed layers inside."""

from __future__ import annotations

import base64
import html
import json
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

from gpt_core.errors import UserError

if TYPE_CHECKING:
    from music_transformer.arc_query import ArcQuery
    from music_transformer.arcs import AttentionView

SCRIPTS = ("arcs_style", "arcs_data", "arcs_draw", "arcs_play", "arcs_pane", "arcs_view", "arcs")
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>body {{ margin: 0; padding: 18px 22px; background: #fff; }} .dark body {{ background: #0f1319; }}</style>
<div id="arcs"></div>
<script type="application/json" id="data">{data}</script>
<script type="module">
{script}
openPage(document.getElementById("arcs"), JSON.parse(document.getElementById("data").textContent));
</script>
</html>
"""


def viewer_script() -> str:
    """The viewer's modules as one script, in the order of their imports."""
    folder = resources.files("music_transformer") / "web" / "static"
    parts = (folder.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    whole = "\n".join(parts)
    return re.sub(
        r"^export (?=class|const|function|async)", "", re.sub(r"^import .*\n", "", whole, flags=re.M), flags=re.M
    )


def page(view: AttentionView, query: ArcQuery) -> str:
    """Return the page, opened at ``query``; every layer of its ``view`` is inside, and of every other way of joining heads."""
    data: dict[str, Any] = {
        "manifest": view.manifest(),
        "packs": _packs(view),
        "layer": query.layer,
        "asked": list(query.tokens),
        "query": {name: getattr(query, name) for name in ("view", "direction", "group")},
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/").replace("<!--", "<\\!--")
    title = f"Attention of {view.model.get('name', 'a model')}"
    return _PAGE.format(title=html.escape(title), data=text, script=viewer_script())


def _packs(view: AttentionView) -> dict[str, str]:
    """Every layer in every way of joining heads, as base64; UserError where that makes no file to pass on."""
    layers, heads = view.trace.config.n_layer, view.trace.config.n_head
    rows = layers * (heads + 3) * view.trace.length
    if rows > 2_000_000:
        raise UserError(
            f"a page of {layers} layers, {heads} heads and {view.trace.length:,} tokens is too large; shorten the piece"
        )
    names = [(kind, layer) for kind in ("heads", "mean", "max", "rollout") for layer in range(layers)]
    return {f"{kind} {layer}": base64.b64encode(view.pack(kind, layer).to_bytes()).decode() for kind, layer in names}
