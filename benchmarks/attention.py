"""Attention views: what a tap costs, bytes per layer, and in Chromium the time to a ready view and per hover at 2,048 events.

python -m benchmarks.attention [tap|bytes|browser ...] [--steps 400] [--looks 5] [--hovers 400]
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpt_core import attention, checkpoint
from gpt_core.cache import KVCache
from gpt_core.config import PRESETS, GPTConfig
from gpt_core.model import GPT, Tap
from music_transformer import arcs, models
from music_transformer.events import EventCodec
from music_transformer.midi import read_midi
from music_transformer.samples import sample_path

LARGE = GPTConfig(vocab_size=391, context=2048, n_layer=6, n_head=8, n_embd=512, position="rotary")
PIECE = "bach_prelude_c"  # 2,152 events
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


def sharp(config: GPTConfig) -> GPT:
    """A model with random weights that prefers some keys; speed and size do not depend on what it prefers."""
    torch.manual_seed(0)
    model = GPT(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 2:
                p.normal_(std=1.5 / p.shape[1] ** 0.5)
            if name.endswith("c_attn.weight"):
                p.mul_(2)
    return model


# ---- the tap -----------------------------------------------------------------------------------------------------------


@torch.inference_mode()
def tap(args: argparse.Namespace) -> None:
    """Decoding with and without a tap that keeps what attention rows need, step by step in turn."""
    print(
        "| model | steps | ms/step without, with (medians) | with/without, median of pairs | of the fastest quarters |"
    )
    print("|---|---|---|---|---|")
    for name in ("piano", "music-2048", "gpt2"):
        model, ids = sharp(PRESETS[name]), torch.randint(1, 300, (1, 256))
        seen = attention.Trace(ids[0], model.config)
        times = np.array(_pairs(model, ids, seen.tap, args.steps))
        without, on = times.T * 1e3
        quarter = [np.sort(t)[: max(1, len(t) // 4)].mean() for t in (without, on)]
        cells = f"{np.median(without):.3f}, {np.median(on):.3f} | {np.median(on / without):.3f} | {quarter[1] / quarter[0]:.3f}"
        print(f"| {name} | {len(times)} | {cells} |", flush=True)
        assert len(seen.q) == model.config.n_layer * (len(times) + 8)


def _pairs(model: GPT, ids: torch.Tensor, seen: Tap, steps: int) -> list[list[float]]:
    """Seconds of each step [without, with]; whose turn is first changes; both must give the same bits."""
    caches = [KVCache(model.config), KVCache(model.config)]
    logits = [model(ids, cache, last_only=True)[:, -1] for cache in caches]
    out = []
    for step in range(min(steps, model.config.context - 256 - 8) + 8):
        assert torch.equal(*logits)
        column, pair = logits[0].argmax(-1)[:, None], [0.0, 0.0]
        for which in (0, 1) if step % 2 else (1, 0):
            start = time.perf_counter()
            logits[which] = model(column, caches[which], seen if which else None)[:, -1]
            pair[which] = time.perf_counter() - start
        out.append(pair)
    return out[8:]


# ---- bytes -------------------------------------------------------------------------------------------------------------


def sizes(args: argparse.Namespace) -> None:
    """The largest layer of a view over the real piece, for the shipped model and for a large one with random weights."""
    print(
        "| model | tokens | heads | edges per row, at most | largest layer, MB | packing it, s |\n|---|---|---|---|---|---|"
    )
    large = checkpoint.Checkpoint(sharp(LARGE), EventCodec(), {}, "", Path("random, 6 layers"))
    for piano in (models.load("piano", "cpu"), large):
        view = arcs.music_view(piano, read_midi(sample_path(PIECE))[0], at=0)
        times, bytes_ = [], []
        for layer in range(piano.config.n_layer):
            start = time.perf_counter()
            bytes_.append(len(view.pack("heads", layer).to_bytes()))
            times.append(time.perf_counter() - start)
        cells = f"{view.trace.length} | {piano.config.n_head} | {view.kept.top_k} | {max(bytes_) / 1e6:.3f}"
        print(f"| {piano.folder.name} | {cells} | {statistics.median(times):.2f} |", flush=True)


# ---- the browser ---------------------------------------------------------------------------------------------------------

READY = """
window.readyAt = [];
new MutationObserver((seen) => seen.forEach((m) => { if (m.target.dataset.ready && m.target.arcs)
  requestAnimationFrame(() => readyAt.push(performance.timeOrigin + performance.now())); }))
  .observe(document, { subtree: true, attributes: true, attributeFilter: ["data-ready"] });
"""
HOVER = """async ({ hovers, direction }) => {
  const view = [...document.querySelectorAll("#mt-arcs .arcs")].map((e) => e.arcs).find(Boolean), [pane] = view.panes;
  view.clear();
  await view.choose("direction", direction);
  pane.at(0, 0);  // lays out what can be pointed at
  const notes = pane.targets.list.filter((b) => pane.tokens.kinds[b.place] === "on" || pane.tokens.kinds[b.place] === "velocity");
  const times = [], arcs = [];
  for (let i = 0; i < hovers; i++) {
    const b = notes[(i * 37) % notes.length], box = pane.still.getBoundingClientRect();
    const at = { clientX: box.left + b.x + b.w / 2 - pane.area.x, clientY: box.top + b.y + b.h / 2 - pane.area.y, bubbles: true };
    const start = performance.now();
    pane.still.dispatchEvent(new PointerEvent("pointermove", at));
    const handled = performance.now();
    view.live.offsetHeight;  // layout of the sentence, then the strokes themselves
    pane.canvases[1].getContext("2d").getImageData(0, 0, 1, 1);
    times.push([handled - start, performance.now() - start]);
    arcs.push(pane.found.arcs.length);
    await new Promise((go) => setTimeout(go));
  }
  return { times, arcs };
}"""


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """The app over the large model in a thread; yields its address and (end, seconds) of each forward pass."""
    import uvicorn

    from music_transformer.web.page import build_app
    from music_transformer.web.settings import ServeConfig

    checkpoint.save(folder / "large", sharp(LARGE), EventCodec(), {"kind": "benchmark"})
    forwards: list[tuple[float, float]] = []
    read = attention.trace

    def timed(model: GPT, ids: torch.Tensor) -> attention.Trace:
        start = time.time()
        made = read(model, ids)
        forwards.append((time.time(), time.time() - start))
        return made

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = build_app(ServeConfig(model=str(folder / "large"), device="cpu", folder=str(folder / "pieces")))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    attention.trace = timed
    thread.start()
    while not server.started:
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}", forwards
    attention.trace = read
    server.should_exit = True
    thread.join(20)


def browser(args: argparse.Namespace) -> None:
    """From the end of the forward pass to a drawn view, and the work of one hover, in headless Chromium."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        print("(Chromium or playwright is not installed: skipped)")
        return
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (url, forwards), sync_playwright() as play:
        page = play.chromium.launch(executable_path=path, args=FLAGS).new_page(viewport={"width": 1360, "height": 900})
        page.set_default_timeout(300_000)
        page.add_init_script(READY)
        page.goto(url)
        page.get_by_role("tab", name="Attention").click()
        for look in range(args.looks):
            page.wait_for_function(f"readyAt.length > {look}")
            if look + 1 < args.looks:
                page.locator("#mt-arcs").get_by_label("Piece", exact=True).dispatch_event(
                    "change"
                )  # reads and opens the piece again
        _report(page, forwards, args.hovers)


def _report(page: Any, forwards: list[tuple[float, float]], hovers: int) -> None:
    ready = [at / 1e3 - end for at, (end, _) in zip(page.evaluate("readyAt"), forwards, strict=True)]
    tokens = page.evaluate(
        "[...document.querySelectorAll('#mt-arcs .arcs')].find((e) => e.arcs).arcs.panes[0].tokens.labels.length"
    )
    passes = ", ".join(f"{took:.2f}" for _, took in forwards)
    print(f"- {tokens} events, {LARGE.n_layer} layers × {LARGE.n_head} heads: forward pass {passes} s")
    print(f"- from its end to the drawn view: {', '.join(f'{t:.2f}' for t in ready)} s")
    for direction in ("looks-at", "looked-at-by"):
        found = page.evaluate(HOVER, {"hovers": hovers, "direction": direction})
        handled, drawn = np.array(found["times"]).T
        (median, p99, most), alone = np.percentile(drawn, [50, 99, 100]), np.percentile(handled, 99)
        print(
            f"- hover, {direction}, {hovers} times, {statistics.median(found['arcs']):.0f} arcs: handled and drawn in "
            f"{median:.1f} ms (median), {p99:.1f} ms (p99), {most:.1f} ms (longest); handled alone p99 {alone:.1f} ms"
        )


PARTS = {"tap": tap, "bytes": sizes, "browser": browser}


def main() -> None:
    """Run the parts asked for, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--steps", type=int, default=400, help="decoding steps with and without the tap")
    parser.add_argument("--looks", type=int, default=5, help="times the view is opened")
    parser.add_argument("--hovers", type=int, default=400)
    args = parser.parse_args()
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    print(
        f"{time.strftime('%Y-%m-%d')}, {platform.machine()}, {os.cpu_count()} cores, load {load}, `{' '.join(sys.argv[1:])}`"
    )
    for name in args.parts or PARTS:
        print(f"\n## {name}\n", flush=True)
        PARTS[name](args)


if __name__ == "__main__":
    main()
