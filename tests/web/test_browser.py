"""A musician's visit in real Chromium against the real server: every step of the way, by mouse, by key, on a phone."""

from __future__ import annotations

import itertools

import pytest

from music_transformer.midi import read_midi, read_texts
from music_transformer.receipts import find_receipt

from .conftest import SAMPLE

pytestmark = pytest.mark.browser
IDLE = "!mt.composer.busy"


def open_sample(page) -> None:
    page.locator("#mt-file").set_input_files(str(SAMPLE))
    page.wait_for_function("mt.piece && mt.piece.kind === 'upload'")


def short(page, seconds: int = 5) -> None:
    page.evaluate(f"mt.form.set({{seconds: {seconds}, seed: '7'}})")


def compose(page, button: str = "#mt-go") -> None:
    page.locator(button).click()
    page.wait_for_function("mt.composer.busy || mt.piece?.kind === 'take'")
    page.wait_for_function(IDLE)


def test_upload_stream_hear_tree_rewrite_download_receipt(visit):
    page = visit()
    open_sample(page)
    assert "notes" in page.locator(".mt-report summary").inner_text()
    short(page)
    page.locator("#mt-go").click()
    page.wait_for_function("mt.player.playing && mt.player.context.state === 'running'")
    page.wait_for_function("mt.player.level() > 0.001")
    page.wait_for_function(
        "mt.composer.busy && mt.roll.live && mt.roll.live.notes.length > 0 || mt.piece.kind === 'take'"
    )
    page.wait_for_function(IDLE)
    assert page.evaluate("mt.piece.kind") == "take" and "seed 7" in page.locator(".mt-progress").inner_text()
    assert page.locator(".mt-take").count() == 2
    assert page.locator(".mt-take[aria-level='2']").count() == 1, "the take stands below its upload"
    parts = page.evaluate("[...mt.roll.notes.part].reduce((n, p) => (n[p]++, n), [0, 0])")
    assert parts[0] == len(read_midi(SAMPLE)[0].notes) and parts[1] > 0

    page.evaluate("mt.player.pause(); mt.roll.setRegion([3, 5])")
    compose(page, "#mt-rewrite")
    page.wait_for_function("document.querySelectorAll('.mt-take').length === 3")
    assert page.evaluate("[mt.piece.join, mt.piece.until]") == [3, 5]

    page.evaluate("mt.player.pause()")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="MIDI", exact=True).click()
    data = waiting.value.path().read_bytes()
    receipt = find_receipt(read_texts(data))
    assert receipt.seed == 7 and receipt.settings["compose"]["until"] == 5
    page.locator("#mt-receipt summary").click()
    page.get_by_role("button", name="Compose it again and compare").click()
    page.get_by_text("Every byte is the same").wait_for()
    page.locator("#mt-meters summary").click()
    page.locator("#mt-meters").get_by_text("Longest exact repeat").wait_for()


def test_the_model_is_chosen_and_remembered(visit):
    page = visit()
    model = page.get_by_role("radiogroup", name="Model")
    assert model.locator("span").all_inner_texts()[:2] == ["tiny", "piano"]
    foot = page.locator(".mt-foot")
    foot.get_by_text("tiny, 0.0 million").wait_for()
    model.get_by_text("piano").click()
    foot.get_by_text("piano, 4.9 million").wait_for()
    short(page)
    compose(page)
    assert page.evaluate("mt.piece.facts.model") == "piano"
    page.reload()
    page.wait_for_function("window.mt?.form")
    assert page.evaluate("mt.form.order().model") == "piano"


def test_takes_rename_keep_delete_undo_and_a_reload_loses_nothing(visit):
    page = visit()
    open_sample(page)
    row = page.locator(".mt-take")
    row.get_by_title("Rename").click()
    page.get_by_label("New name").fill("<b>Tanz</b>")
    page.keyboard.press("Enter")
    page.locator("h1", has_text="<b>Tanz</b>").wait_for()
    row.get_by_title("Keep").click()
    page.locator(".mt-take [aria-pressed='true']").wait_for()
    page.locator(".mt-take").get_by_title("Delete").click()
    page.wait_for_function("document.querySelectorAll('.mt-take').length === 0")
    page.get_by_role("button", name="Undo").click()
    page.locator(".mt-take").wait_for()
    page.reload()
    page.locator(".mt-take", has_text="<b>Tanz</b>").wait_for()
    page.locator(".mt-take [aria-pressed='true']").wait_for()
    assert page.locator("b").count() == 0, "names are text, never markup"


def test_stop_keeps_what_exists_and_takes_can_be_compared(visit):
    page = visit()
    page.evaluate("mt.form.set({seconds: 300, takes: 2, seed: ''})")
    page.locator("#mt-go").click()
    page.wait_for_function("mt.composer.job?.lives[0]?.notes.length > 3")
    page.get_by_role("radio", name="Take 2").click()
    page.get_by_role("button", name="Stop").click()
    page.wait_for_function(IDLE)
    assert "Stopped" in page.locator(".mt-progress").inner_text()
    assert page.locator(".mt-take").count() == 2
    second = page.evaluate("mt.piece.id")
    page.get_by_role("radio", name="Take 1").click()
    page.wait_for_function(f"mt.piece.id !== '{second}'")
    page.locator(".mt-chip", has_text="Compare").click()
    page.wait_for_function(f"mt.piece.id === '{second}'")


def test_wrong_files_are_answered_in_a_sentence(visit, tmp_path):
    page = visit()
    for name, data, words in [
        ("cat.mid", b"\x89PNG\r\n\x1a\n" + bytes(100), "MIDI"),
        ("empty.mid", b"", "empty"),
        ("big.mid", bytes(1_100_000), "1 MB"),
    ]:
        (tmp_path / name).write_bytes(data)
        page.locator("#mt-file").set_input_files(str(tmp_path / name))
        page.locator(".mt-notice.mt-bad", has_text=words).wait_for()
    assert page.locator(".mt-take").count() == 0


def test_by_keyboard_alone(visit):
    page = visit()
    open_sample(page)
    page.locator(".mt-roll").focus()
    page.keyboard.press("End")
    assert page.evaluate("mt.roll.playhead === mt.roll.length")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("n")
    assert 1 < page.evaluate("mt.roll.playhead") < 3
    assert "of" in page.locator(".mt-roll [role=status]").inner_text()
    page.keyboard.press("c")
    page.locator("#mt-go", has_text="Continue from").wait_for()
    page.keyboard.press("[")
    assert page.evaluate("mt.roll.region !== null")
    page.keyboard.press("Escape")
    assert page.evaluate("mt.roll.region === null && mt.roll.place === null")
    page.keyboard.press(" ")
    page.wait_for_function("mt.player.playing")
    page.keyboard.press(" ")
    page.wait_for_function("!mt.player.playing")
    scale = page.evaluate("mt.roll.scale")
    page.keyboard.press("+")
    assert page.evaluate("mt.roll.scale") > scale
    short(page)
    page.locator("#mt-go").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("mt.composer.busy || mt.piece.kind === 'take'")
    page.wait_for_function("mt.piece.kind === 'take'")


def test_next_event_by_hand(visit):
    page = visit()
    open_sample(page)
    page.evaluate("mt.seek(3)")
    page.locator("#mt-next summary").click()
    page.locator(".mt-next-event").nth(9).wait_for()
    for _ in range(12):
        strikes = page.locator(".mt-next-event", has_text="strike")
        (strikes if strikes.count() else page.locator(".mt-next-event")).first.click()
        chosen = page.evaluate("mt.explorer.events.length")
        page.wait_for_function(f"document.querySelector('#mt-next p').textContent.includes('{chosen} events')")
        if page.evaluate("mt.roll.live.notes.length") > 0:
            break
    page.get_by_role("button", name="Keep these notes").click()
    page.wait_for_function("mt.piece.kind === 'edit' && mt.piece.join === 3")


LATE = """() => {
    const send = mt.api.send.bind(mt.api);
    mt.api.send = async (path, ...rest) => {
        const answer = await send(path, ...rest);
        if (path === '/next' && !mt.late) await new Promise((go) => { mt.late = go; });
        return answer;
    };
}"""


def test_an_answer_that_comes_late_does_not_move_the_playhead_back(visit):
    page = visit()
    open_sample(page)
    page.evaluate(LATE)
    page.evaluate("mt.seek(3)")
    page.locator("#mt-next summary").click()
    page.wait_for_function("Boolean(mt.late)")
    page.evaluate("mt.seek(8); mt.late()")
    page.locator(".mt-next-event").nth(9).wait_for()
    assert page.evaluate("[mt.roll.playhead, mt.player.position]") == [8, 8]
    assert page.locator("#mt-next p").inner_text().startswith("At 8.00 s")


def test_shares_of_likely_strikes_can_be_read_and_clicked(visit):
    page = visit()
    open_sample(page)
    page.evaluate("mt.seek(3)")
    page.locator("#mt-next summary").click()
    page.locator(".mt-next-event").nth(9).wait_for()
    ghosts = [{"id": key, "pitch": key, "share": 0.1, "seconds": 3, "text": "strike"} for key in range(60, 69)]
    page.evaluate("(ghosts) => mt.roll.setGhosts(ghosts)", ghosts)
    page.wait_for_function("mt.roll.ghosts.every((g) => g.tag)")
    tags = sorted(page.evaluate("mt.roll.ghosts.map((g) => g.tag)"), key=lambda tag: tag[1])
    assert all(below[1] >= above[1] + above[3] - 0.01 for above, below in itertools.pairwise(tags)), "none on another"
    x, y, width, height = page.evaluate("mt.roll.ghosts[8].tag")
    page.locator(".mt-roll").click(position={"x": x + width / 2, "y": y + height / 2})
    page.wait_for_function("mt.explorer.events.length === 1")
    assert page.evaluate("mt.explorer.events") == [68]


def test_labels_make_room_for_each_other(visit):
    page = visit()
    spread = "async (args) => (await import(mt.api.base + '/static/ghosts.js')).spread(...args)"
    assert page.evaluate(spread, [[], 14, 0, 100]) == []
    assert page.evaluate(spread, [[10, 30, 50], 14, 0, 100]) == [10, 30, 50], "those with room stay"
    assert page.evaluate(spread, [[10, 12, 50], 14, 0, 100]) == [4, 18, 50], "two share the way"
    assert page.evaluate(spread, [[10, 12, 30], 14, 7, 100]) == [7, 21, 35], "at the edge they move together"
    assert page.evaluate(spread, [[96, 99], 14, 0, 100]) == [86, 100]


def test_dark_theme_and_phone_width(visit):
    page = visit(color_scheme="dark", viewport={"width": 390, "height": 844}, device_scale_factor=3)
    open_sample(page)
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "nothing hangs over the edge"
    assert page.evaluate("document.querySelector('.mt-roll canvas').width === 3 * mt.roll.width")
    red, green, blue = page.evaluate(
        "[...document.querySelector('.mt-roll canvas').getContext('2d').getImageData(600, 10, 1, 1).data].slice(0, 3)"
    )
    assert max(red, green, blue) < 90, "the roll is dark, too"
    box = page.locator("#mt-go").bounding_box()
    assert box["width"] > 250 and box["height"] >= 44


def test_an_hour_of_music_scrolls_smoothly(visit):
    page = visit()
    page.evaluate(
        """async () => {
          const {Notes} = await import(mt.api.base + '/static/notes.js');
          const n = 40000, start = Float32Array.from({length: n}, (_, i) => i * 0.09), end = start.map((s) => s + 0.4);
          const pitch = Uint8Array.from({length: n}, (_, i) => 30 + (i * 7) % 60);
          const velocity = Uint8Array.from({length: n}, (_, i) => 20 + i % 100);
          mt.roll.show(new Notes({start, end, ring: end, pitch, velocity, part: new Uint8Array(n)}));
        }"""
    )
    cost = """(fit) => { if (!fit) mt.roll.scale = 60; const t = performance.now();
      for (let k = 0; k < 5; k++) { mt.roll.left = fit ? 0 : 100 * k; mt.roll.drawMusic(); }
      return (performance.now() - t) / 5; }"""
    drawn = page.evaluate("(() => { let n = 0; mt.roll.notes.between(1000, 1015, () => n++); return n; })()")
    assert 150 < drawn < 190, "a view visits its own notes only"
    print("ms a frame, zoomed:", page.evaluate(cost, False), "all of it:", page.evaluate(cost, True))
