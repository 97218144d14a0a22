"""The app: a gradio page of tabs, each an instrument of its own, over one shared session.

How the rooms fit together
--------------------------
``page.build_app(config) -> fastapi.FastAPI`` opens one :class:`session.Session`, assembles the tabs that exist
(``page.TABS`` lists their modules; an absent one is left out) and mounts everything: our routes under ``/mt``, gradio
at ``/``.

A tab is a module ``web/<name>_tab.py`` with

- ``TITLE: str``, the tab's label;
- ``build(session) -> None``, called inside ``with gr.Tab(TITLE):``: adds components and ``gr.api(..., api_name=...)``;
- optionally ``routes(session) -> fastapi.APIRouter``: mounted under ``/mt`` behind the same guard as gradio itself
  (login where there is one, same origin only, a visitor's cookie). A handler learns who asks by its parameters
  ``here: Here``, ``visitor: Visitor``, ``own: Own`` (session, secret, shelf) from ``asking``; ids of another visitor's
  pieces are unknown to it (404).

``component.mount(script, elem_id)`` returns the ``gr.HTML`` of a tab that is drawn by ``static/<script>.js``: an ES module with
``export function mount(element)``. ``element.dataset.base`` is the URL of ``/mt`` (no trailing slash). Static files are
served at ``/mt/static/<file>``. ``static/style.css`` holds the colours as custom properties (``--mt-accent``, ``--mt-ink``,
``--mt-soft``, ``--mt-line``, ``--mt-paper``, ``--mt-raised``; light and dark), and the classes ``mt-button``, ``mt-chip``,
``mt-field``, ``mt-note`` that every tab may use. User text enters the page through ``textContent`` only.

What a tab gets from the session
--------------------------------
- ``session.models``: the models a visitor may choose; ``.music(name) -> gpt_core.checkpoint.Checkpoint`` (None: the app's own),
  loaded once; ``.names("music")``, ``.get("text", name)``. Safe in any thread.
- ``with session.turns.turn(visitor) as turn: ...`` around heavy model work: waits for its place in the queue, raises
  UserError ("8 others are waiting ...") where the queue is full. Short work (one forward pass) needs no turn.
- ``session.shelf(visitor) -> shelf.Shelf``: the visitor's pieces on disk; ``.get(id) -> Piece`` (UserError if unknown),
  ``.list()``, ``.score(id) -> Score``, ``.midi(id) -> bytes``.
- UserError raised in a route becomes ``{"error": sentence}`` with status 400 (404 for an unknown id, 503 for a full queue).

In the browser, the piece on the Compose roll is announced on ``document`` as a ``CustomEvent("mt:piece", {detail: {id,
name}})`` and kept in ``window.mt.piece``; ``GET /mt/pieces`` lists all pieces, ``GET /mt/pieces/{id}/notes`` gives their notes.
"""
