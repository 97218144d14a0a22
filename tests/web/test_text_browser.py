"""The Text tab in a real browser: clicks, undo, branches, sliders, streaming, and text that is never taken for HTML."""

from __future__ import annotations

import socket
import threading
import time

import pytest
import torch

from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.model import GPT
from tests.text.scripted import BYTES, writes

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory, model_folder):
    import uvicorn

    from music_transformer.web.page import build_app
    from music_transformer.web.settings import ServeConfig

    root = tmp_path_factory.mktemp("texts")
    torch.manual_seed(1)
    model = GPT(GPTConfig(vocab_size=257, context=64, n_layer=2, n_head=2, n_embd=16))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape) * 0.3)
    checkpoint.save(root / "random", model, BYTES, {})
    checkpoint.save(root / "known", writes("ab🙂c", context=64).model, BYTES, {})
    with pytest.MonkeyPatch.context() as patch, socket.socket() as free:
        patch.setenv("MUSIC_TRANSFORMER_MORE_MODELS", f"{root / 'random'}:{root / 'known'}")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        app = build_app(ServeConfig(model=str(model_folder), device="cpu", folder=str(root / "pieces")))
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join(20)


@pytest.fixture
def page(address, chromium):
    strangers, complaints = [], []
    tab = chromium.new_page()
    tab.set_default_timeout(300_000)
    tab.on("request", lambda r: None if r.url.startswith((address, "data:", "blob:")) else strangers.append(r.url))
    refusal = "status of 400 (Bad Request)"  # the browser notes it, the page says why
    tab.on("console", lambda m: complaints.append(m.text) if m.type == "error" and refusal not in m.text else None)
    tab.on("pageerror", lambda e: complaints.append(str(e)))
    tab.goto(address)
    tab.get_by_role("tab", name="Text").click()
    tab.wait_for_selector("#mt-text-next .mt-candidate")
    yield tab
    tab.close()
    assert not strangers and not complaints


def choose(page, model, text):
    page.select_option("#mt-text-model", model)
    page.fill("#mt-text-prompt", text)
    page.wait_for_function(f"document.querySelectorAll('#mt-text-tokens .mt-token').length === {len(text.encode())}")


def first(page):
    return page.locator("#mt-text-next .mt-candidate").first.get_attribute("data-id")


def count(page, number):
    page.wait_for_function(f"document.querySelectorAll('#mt-text-tokens .mt-token').length === {number}")


def test_click_undo_branch_and_sliders(page):
    choose(page, "random", "hey")
    best = first(page)
    page.locator("#mt-text-next .mt-candidate").first.click()
    count(page, 4)
    assert page.locator("#mt-text-tokens .mt-token.mt-appended").get_attribute("data-id") == best
    page.click("#mt-text-undo")
    count(page, 3)
    page.locator("#mt-text-next .mt-candidate").nth(1).click()
    count(page, 4)
    assert page.locator("#mt-text-branches .mt-chip").count() == 2
    page.locator("#mt-text-branches .mt-chip").first.click()
    page.wait_for_function(f"document.querySelector('.mt-appended').dataset.id === '{best}'")
    page.evaluate(
        "() => { const s = document.querySelector('#mt-text-top_k'); s.value = 3; s.dispatchEvent(new Event('input')); }"
    )
    page.wait_for_function("document.querySelectorAll('#mt-text-next .mt-left-out').length === 7")


def test_greedy_is_seen_and_completion_keeps_characters_whole(page):
    choose(page, "known", " ")
    for n in range(2, 9):
        page.click("#mt-text-step")
        count(page, n)
    labels = page.locator("#mt-text-tokens .mt-token b").all_text_contents()
    assert labels == ["␣", "a", "b", "F0", "9F", "99", "82", "c"]
    page.evaluate(
        "() => { const s = document.querySelector('#mt-text-temperature'); s.value = 0; s.dispatchEvent(new Event('input')); }"
    )
    page.fill("#mt-text-length", "20")
    for _ in range(5):
        page.click("#mt-text-undo")
    count(page, 3)
    page.click("#mt-text-go")
    page.wait_for_function("document.querySelector('#mt-text-output [data-take]')?.textContent === '🙂c'")
    assert page.locator("#mt-text-output .mt-output").inner_text() == " ab🙂c ■"
    choose(page, "known", "  ")
    assert page.locator("#mt-text-output").inner_text() == ""
    page.click("#mt-text-go")
    page.wait_for_function("document.querySelector('#mt-text-output [data-take]')?.textContent === 'ab🙂c'")


def test_a_refusal_leaves_nothing_that_belongs_to_another_text(page):
    choose(page, "random", "hey")
    page.fill("#mt-text-length", "0")
    page.click("#mt-text-go")
    page.wait_for_function(
        "[...document.querySelectorAll('.mt-bad')].some((n) => n.textContent.startsWith('max_new is 0'))"
    )
    page.fill("#mt-text-prompt", "a" * 20_001)
    page.wait_for_function(
        "[...document.querySelectorAll('.mt-bad')].some((n) => n.textContent.includes('20,001 characters'))"
    )
    assert (
        page.locator("#mt-text-tokens .mt-token, #mt-text-next .mt-candidate, #mt-text-output .mt-output").count() == 0
    )
    choose(page, "random", "ho")
    assert page.locator("#mt-text-next .mt-candidate").count() == 10


def test_markup_is_text(page):
    evil = "<script>window.evil = 1</script><img src=x onerror='window.evil = 1'>"
    page.select_option("#mt-text-model", "random")
    page.fill("#mt-text-prompt", evil)
    page.wait_for_selector("#mt-text-tokens .mt-token")
    page.fill("#mt-text-length", "3")
    page.click("#mt-text-go")
    page.wait_for_selector("#mt-text-output [data-take]")
    assert evil in page.locator("#mt-text-output").inner_text()
    assert (
        page.evaluate("window.evil") is None
        and page.locator("#mt-text-output img, #mt-text-output script").count() == 0
    )
