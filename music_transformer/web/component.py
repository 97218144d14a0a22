"""A gradio component that one of our scripts draws."""

from __future__ import annotations

import gradio as gr


def mount(script: str, elem_id: str) -> gr.HTML:
    """A component drawn by ``static/<script>.js``, whose ``mount(element)`` is called once the page shows it.

    The template never mentions a value, so gradio never draws it again and canvases survive.
    """
    load = (
        "const base = new URL('mt', document.baseURI).href; element.dataset.base = base;"
        f"import(base + '/static/{script}.js').then((module) => module.mount(element));"
    )
    return gr.HTML(html_template='<div class="mt"></div>', js_on_load=load, elem_id=elem_id, apply_default_css=False)
