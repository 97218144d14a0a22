"""The generation loop against a plain loop, Hugging Face's greedy search, itself uncached, and itself in company."""

from __future__ import annotations

import threading

import pytest
import torch

from gpt_core.errors import UserError
from gpt_core.generate import generate
from gpt_core.model import GPT
from gpt_core.sampling import Sampling, generators_for
from tests.core.peers import SCHEMES, gpt2_twins, small_model

CONTEXT = 16
GREEDY = Sampling(temperature=0.0)
WARM = Sampling(temperature=1.2, top_k=20, top_p=0.95)


def prompt_of(n: int, rows: int = 1, seed: int = 3) -> torch.Tensor:
    return torch.randint(0, 61, (rows, n), generator=torch.Generator().manual_seed(seed))


def ids_of(model: GPT, prompt: torch.Tensor, n: int, **asked) -> list[list[int]]:
    """Rows of new ids."""
    columns = list(generate(model, prompt, max_new_tokens=n, **asked))
    return torch.stack(columns, 1).tolist() if columns else []


def plainly(model: GPT, prompt: torch.Tensor, n: int) -> list[int]:
    """Greedy, whole window read for each id; the window keeps its recent half when it would overflow."""
    ids, start = prompt[0].tolist(), max(0, prompt.shape[1] - CONTEXT)
    for _ in range(n):
        if len(ids) - start > CONTEXT:
            start = len(ids) - CONTEXT // 2
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids[start:]]))[0, -1].argmax()))
    return ids[prompt.shape[1] :]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("total", [CONTEXT - 1, CONTEXT, CONTEXT + 1, CONTEXT + 2, 2 * CONTEXT, 3 * CONTEXT])
def test_cached_uncached_and_a_plain_loop_agree(scheme, total):
    model, prompt = small_model(scheme), prompt_of(5)
    wanted = plainly(model, prompt, total - 5)
    assert ids_of(model, prompt, total - 5, sampling=GREEDY) == [wanted]
    assert ids_of(model, prompt, total - 5, sampling=GREEDY, use_cache=False) == [wanted]
    assert len(set(wanted)) > 1


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("total", [CONTEXT - 1, CONTEXT, CONTEXT + 1, 2 * CONTEXT])
def test_cached_and_uncached_draw_the_same(scheme, total):
    model, prompt = small_model(scheme), prompt_of(4)

    def drawn(use_cache: bool) -> list[list[int]]:
        asked = {"sampling": WARM, "takes": 3, "generators": generators_for(8, 3), "use_cache": use_cache}
        return ids_of(model, prompt, total - 4, **asked)

    cached = drawn(True)
    assert cached == drawn(False)
    assert cached[0] != cached[1] != cached[2] and len({i for row in cached for i in row}) > 8


def test_greedy_ids_equal_hugging_face():
    ours, theirs = gpt2_twins(context=64)
    prompt = torch.arange(5, 17)[None]
    asked = {"max_new_tokens": 24, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    with torch.no_grad():
        wanted = theirs.generate(prompt, attention_mask=torch.ones_like(prompt), **asked)[0, 12:].tolist()
    assert ids_of(ours, prompt, 24, sampling=GREEDY) == [wanted]
    assert len(set(wanted)) > 5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_take_is_the_same_alone_and_in_company(scheme):
    model, prompt = small_model(scheme), prompt_of(6)

    def takes(n: int) -> list[list[int]]:
        return ids_of(model, prompt, 30, sampling=WARM, takes=n, generators=generators_for(42, n))

    four = takes(4)
    assert takes(1) == four[:1]
    assert takes(2) == four[:2]
    assert len({tuple(row) for row in four}) == 4
    assert takes(4) == four


def test_rows_of_different_prompts_go_their_own_ways():
    model, prompts = small_model("rotary"), prompt_of(6, rows=3)
    together = ids_of(model, prompts, 25, sampling=WARM, generators=generators_for(5, 3))
    for row in range(3):
        alone = ids_of(model, prompts[row : row + 1], 25, sampling=WARM, generators=[generators_for(5, 3)[row]])
        assert alone == [together[row]]


@pytest.mark.parametrize("scheme", ["learned", "rotary", "relative"])
def test_threads_with_one_model_never_disturb_each_other(scheme):
    model = small_model(scheme)
    asks = [(prompt_of(3 + i, seed=i), i) for i in range(4)]

    def answer(ask) -> list[list[int]]:
        prompt, seed = ask
        return ids_of(model, prompt, 30, sampling=WARM, takes=2, generators=generators_for(seed, 2))

    alone, together = [answer(ask) for ask in asks], [None] * len(asks)

    def work(i: int) -> None:
        together[i] = answer(asks[i])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(asks))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert together == alone


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_prompt_longer_than_the_window_is_read_from_its_end(scheme):
    model, prompt = small_model(scheme), prompt_of(50)
    whole = ids_of(model, prompt, 20, sampling=WARM, generators=generators_for(1, 1))
    assert whole == ids_of(model, prompt[:, -CONTEXT:], 20, sampling=WARM, generators=generators_for(1, 1))


def test_a_window_of_one_token():
    model = small_model("learned", context=1)
    with torch.no_grad():
        following = model(torch.arange(61)[:, None])[:, 0].argmax(-1).tolist()
    ids = [7]
    for _ in range(6):
        ids.append(following[ids[-1]])
    assert ids_of(model, torch.tensor([[7]]), 6, sampling=GREEDY) == [ids[1:]]


def test_a_stop_id_ends_its_row_and_all_of_them_the_stream():
    model, prompt = small_model("rotary"), prompt_of(5)
    free = ids_of(model, prompt, 200, sampling=WARM, takes=3, generators=generators_for(2, 3))
    stop = max(set(free[0]), key=free[0].count)
    first = [row.index(stop) for row in free]  # each row meets it at its own time
    assert len(set(first)) > 1
    held = ids_of(model, prompt, 200, sampling=WARM, takes=3, generators=generators_for(2, 3), stop_ids=[stop])
    assert len(held[0]) == max(first) + 1
    for row, at in enumerate(first):
        assert held[row][: at + 1] == free[row][: at + 1]
        assert set(held[row][at:]) == {stop}


def test_a_stop_id_in_the_prompt_does_not_stop():
    model = small_model("rotary")
    prompt = torch.tensor([[1, 2, 60]])
    assert len(ids_of(model, prompt, 9, sampling=GREEDY, stop_ids=[60])[0]) > 0


def test_filters_see_every_id_and_the_raw_logits_before_sampling():
    model, prompt, seen = small_model("learned"), prompt_of(5), []

    def only_sevens_and_eights(ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        seen.append((ids.tolist(), logits))
        allowed = torch.zeros(61, dtype=torch.bool)
        allowed[7 + len(seen) % 2] = True
        return logits.masked_fill(~allowed, float("-inf"))

    rows = ids_of(model, prompt, 30, sampling=Sampling(0.5, 3, 0.5), filters=[only_sevens_and_eights])
    assert rows == [[8, 7] * 15]
    for n, (ids, _) in enumerate(seen):
        assert ids == [prompt[0].tolist() + rows[0][:n]]
    with torch.no_grad():
        assert torch.allclose(seen[0][1], model(prompt)[:, -1], atol=1e-5)


def test_repetition_looks_beyond_the_window():
    model, prompt = small_model("none"), prompt_of(40)
    one_each = Sampling(temperature=0.0, repetition_penalty=10.0)
    ids = prompt[0].tolist()
    for new in ids_of(model, prompt, 20, sampling=one_each)[0]:
        ids.append(new)
    with torch.no_grad():  # by hand, for the last of them
        start = 40 - CONTEXT
        for n in range(40, 60):
            if n - start > CONTEXT:
                start = n - CONTEXT // 2
            logits = model(torch.tensor([ids[start:n]]))[0, -1]
            for i in set(ids[:n]):
                logits[i] = logits[i] / 10 if logits[i] > 0 else logits[i] * 10
            assert ids[n] == int(logits.argmax())


def test_ids_stream_as_they_are_made():
    model, calls = small_model("learned"), []
    model.register_forward_hook(lambda *_: calls.append(1))
    stream = generate(model, prompt_of(4), max_new_tokens=10**7 // 61, sampling=GREEDY)
    next(stream)
    assert len(calls) == 1
    next(stream)
    assert len(calls) == 2
    stream.close()


def test_yielded_columns_are_the_callers_own():
    model = small_model("learned")
    kept = []
    for column in generate(model, prompt_of(4), max_new_tokens=8, sampling=GREEDY):
        kept.append(int(column))
        column.fill_(0)
    assert [kept] == ids_of(model, prompt_of(4), 8, sampling=GREEDY)


def test_no_new_tokens_is_an_empty_stream():
    assert ids_of(small_model("learned"), prompt_of(4), 0) == []


@pytest.mark.parametrize(
    ("prompt", "asked", "words"),
    [
        (torch.zeros(1, 0, dtype=torch.long), {}, r"shape \[1, 0\]; give ids"),
        (torch.zeros(3, dtype=torch.long), {}, r"shape \[3\]"),
        (torch.tensor([[3, 61]]), {}, "ids 3 to 61; the model knows 0 to 60"),
        (torch.tensor([[-1, 5]]), {}, "ids -1 to 5"),
        (prompt_of(3, rows=2), {"takes": 2}, "takes is 2 and the prompt has 2 rows"),
        (prompt_of(3), {"takes": 0}, "takes is 0"),
        (prompt_of(3), {"takes": 2, "generators": generators_for(0, 3)}, "3 generators were given for 2 rows"),
        (prompt_of(3), {"sampling": Sampling(top_p=3.0)}, r"--top-p is 3\.0"),
    ],
)
def test_what_can_not_be_continued_is_refused(prompt, asked, words):
    with pytest.raises(UserError, match=words):
        next(generate(small_model("learned"), prompt, max_new_tokens=2, **asked))
