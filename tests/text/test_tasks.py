"""Tasks: sequences and masks by hand, splits without leaks, beam search against every answer there is."""

from __future__ import annotations

import itertools
import json

import pytest
import torch

from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.errors import UserError
from gpt_core.evaluate import Protocol, nats_per_token
from gpt_core.model import GPT
from gpt_core.options import to_json
from gpt_core.start import Start
from gpt_core.text.bpe import BPECodec
from gpt_core.text.metrics import bleu, rouge
from gpt_core.text.tasks import TaskConfig, build_task, held_out, lost, prompt_ids, read_examples, sequence, source_key
from gpt_core.text.tasks_baselines import Dictionary, lead, random_sentences
from gpt_core.text.tasks_beam import beam_search
from gpt_core.text.tasks_extract import answer_scores
from gpt_core.text.tasks_run import Answering, answer, finetune, score
from gpt_core.tokens import Batches, Shard
from gpt_core.train_config import TrainConfig
from tests.text.scripted import BYTES

FRENCH = TaskConfig(to="fr")


def test_a_pair_is_one_sequence_scored_on_its_target():
    ids, mask = sequence(BYTES, "Go.", "Va !", FRENCH, context=64)
    assert ids == [256, *b"Go. <to-fr>", *b" Va !", 256]
    assert mask == [0] * 12 + [1] * 6
    ids, mask = sequence(BYTES, "A b.", "C", TaskConfig(task="summarize"), context=64)
    assert bytes(ids[1:-1]) == b"A b.\nTL;DR: C" and sum(mask) == 3


def test_what_does_not_fit_the_window_loses_the_end_of_its_source():
    ids, mask = sequence(BYTES, "x" * 100, "yes", FRENCH, context=31)
    assert len(ids) == 32 and bytes(ids[1:-1]) == b"x" * 18 + b" <to-fr> yes"
    ids, mask = sequence(BYTES, "x" * 100, "y" * 100, FRENCH, context=31)
    assert len(ids) == 32 and sum(mask) == 31 - 8 - 8 and bytes(ids[1:18]) == b"x" * 8 + b" <to-fr> "


def write_pairs(path, count=400):
    lines = ["1\t2"]
    for n in range(count):
        word = f"{'abcdefghij'[n % 10]}{n}"
        lines += [f"See {word}.\tVoir {word}.", f"see {word}!\tVoyez {word} !"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_no_source_is_in_two_splits(tmp_path):
    examples = read_examples(write_pairs(tmp_path / "p.txt"), FRENCH)
    keys = {s: {source_key(e.source) for e in examples if e.split == s} for s in ("train", "validation", "test")}
    for a, b in itertools.combinations(keys.values(), 2):
        assert a and b and not a & b
    assert sum(len(k) for k in keys.values()) == 400
    assert 0.02 < len(keys["test"]) / 400 < 0.09
    assert all(len(e.targets) == 2 for e in examples if e.split == "test")
    assert sum(len(e.targets) for e in examples) == 800


def test_a_smaller_share_is_part_of_a_larger_and_the_test_stays(tmp_path):
    pairs = write_pairs(tmp_path / "p.txt")
    found = {}
    for share in (0.1, 0.5, 1.0):
        folder = tmp_path / str(share)
        record = build_task(pairs, folder, BYTES, 64, TaskConfig(share=share))
        shard = Shard.open(folder, "train")
        found[share] = {tuple(shard.piece(i)) for i in range(len(shard))}
        assert record["splits"]["train"]["examples"] == len(shard)
        assert held_out(folder) == held_out(tmp_path / "0.1")
    assert found[0.1] < found[0.5] < found[1.0]
    assert 0.05 < len(found[0.1]) / len(found[1.0]) < 0.16
    with pytest.raises(UserError, match="leaves no training example"):
        build_task(pairs, tmp_path / "x", BYTES, 64, TaskConfig(share=0.0))


def test_official_splits_of_a_folder_hold(tmp_path):
    for name in ("train", "dev", "test"):
        rows = [{"source": [f"{name} one.", "Two."], "target": [f"{name}!", "second"]}]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    examples = read_examples(tmp_path, TaskConfig(task="summarize"))
    assert [(e.source, e.targets, e.split) for e in examples] == [
        ("train one. Two.", ("train!", "second"), "train"),
        ("dev one. Two.", ("dev!", "second"), "validation"),
        ("test one. Two.", ("test!", "second"), "test"),
    ]


def tiny(vocab=257, context=48, seed=0):
    torch.manual_seed(seed)
    model = GPT(GPTConfig(vocab_size=vocab, context=context, n_layer=2, n_head=2, n_embd=16))
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape) * 0.3)
    return model.eval()


def test_validation_and_training_score_the_target_alone(tmp_path):
    build_task(write_pairs(tmp_path / "p.txt"), tmp_path / "s", BYTES, 48, FRENCH)
    shard, model = Shard.open(tmp_path / "s", "validation"), tiny()
    total, count = 0.0, 0
    for i in range(len(shard)):
        ids = torch.from_numpy(shard.piece(i))
        start = bytes(shard.piece(i)[1:-1].tolist()).index(b"<to-fr>") + 8  # the first id of the target
        logits = model(ids[None, :-1])[0].detach()
        losses = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")[start - 1 :]
        total, count = total + float(losses.sum()), count + len(losses)
    assert nats_per_token(model, shard, Protocol()) == pytest.approx(total / count, rel=1e-5)
    x, y = Batches(shard, 40, crops="pieces").rows(0, [0])
    target = y[0][y[0] >= 0].tolist()
    assert target[-1] == 256 and bytes(target[:-1]).startswith(b" Vo") and x[0, 0] == 256


def best_answer(model, prompt, end, longest, power):
    """Every answer of up to ``longest`` ids, scored one by one."""
    found = []
    for length in range(1, longest + 1):
        for ids in itertools.product([i for i in range(model.config.vocab_size) if i != end], repeat=length - 1):
            whole = [*prompt, *ids, end]
            rows = model(torch.tensor([whole[:-1]]))[0].double().log_softmax(-1)[len(prompt) - 1 :]
            score = sum(float(row[i]) for row, i in zip(rows, whole[len(prompt) :], strict=True))
            found.append((score / length**power, list(ids)))
    return max(found)[1]


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_best_of_all_answers(seed):
    model = tiny(vocab=5, seed=seed)
    with torch.no_grad():
        model.wte.weight.mul_(2)
        got = beam_search(model, [0, 1], beams=64, max_new=3, end=4)
        want = best_answer(model, [0, 1], 4, 3, 1.0)
        unfinished = len(got) == 3  # then no answer that ends within three ids was better
        assert got == want or unfinished


def test_one_beam_is_greedy_and_windows_are_checked():
    model = tiny(seed=3)
    ids = [1, 2, 3]
    with torch.no_grad():
        for _ in range(10):
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    assert 256 not in ids
    assert beam_search(model, ids[:3], beams=1, max_new=10, end=256) == ids[3:]
    with pytest.raises(UserError, match="window of 48"):
        beam_search(model, [1] * 40, beams=2, max_new=10, end=256)


def test_answers_are_scored_together_as_they_are_alone():
    model, prompt = tiny(), [256, 5, 6, 7]
    answers = [[1, 2, 256], [3], [9, 9, 9, 9, 256]]
    for ids, found in zip(answers, answer_scores(model, prompt, answers), strict=True):
        rows = model(torch.tensor([[*prompt, *ids[:-1]]]))[0].detach().log_softmax(-1)[len(prompt) - 1 :]
        alone = sum(float(row[i]) for row, i in zip(rows, ids, strict=True)) / len(ids)
        assert found == pytest.approx(alone, abs=1e-5)


def test_an_extracted_answer_is_the_likeliest_sentence(tmp_path):
    source = "Cats sleep. We show that dogs bark! Fish? Numbers follow."
    task = TaskConfig(task="summarize")
    checkpoint.save(tmp_path / "m", tiny(), BYTES, {"task": to_json(task)})
    model = checkpoint.load(tmp_path / "m")
    own = ["Cats sleep.", "We show that dogs bark!", "Fish?", "Numbers follow."]
    longest = max(len(s) for s in own) + 2
    prompt = prompt_ids(BYTES, source, task, model.config.context - longest)
    encoded = [[*f" {s}".encode(), 256] for s in own]
    likeliest = max(zip(answer_scores(model.model, prompt, encoded), own, strict=True))[1]
    assert answer(model, [source, "Alone.", ""], Answering(extract=True)) == [likeliest, "Alone.", ""]
    checkpoint.save(tmp_path / "fr", tiny(), BYTES, {"task": to_json(FRENCH)})
    with pytest.raises(UserError, match="taught to translate; sentences of the source answer summaries alone"):
        answer(checkpoint.load(tmp_path / "fr"), ["a"], Answering(extract=True))


def test_baselines_by_hand():
    words = Dictionary([("the cat", "le chat"), ("the dog", "le chien"), ("a cat", "un chat")])
    assert words("A dog.") == "Un chien." and words("The cat") == "Le chat"
    assert lead("One. Two! Three?") == "One." and lead("") == ""
    drawn = random_sentences(["A. B. C."] * 50, seed=1)
    assert set(drawn) == {"A.", "B.", "C."} and drawn == random_sentences(["A. B. C."] * 50, seed=1)


def test_metrics_are_the_libraries_own():
    assert bleu(["the cat sat on the mat"], [["the cat sat on the mat", "another"]]) == pytest.approx(100)
    assert (
        bleu(["a b"], [["c d"]]) < 1
        and bleu(["x y z w", "the cat sat on the mat"], [["x y z w"], ["no", "the cat sat on the mat"]]) > 99
    )
    found = rouge(["the cats sat"], [["the cat sat down", "unrelated"]])
    assert found["rouge1"] == pytest.approx(100 * 2 * 1.0 * 0.75 / 1.75)  # stemmed: 3 of 3 words, 3 of 4 words
    with pytest.raises(UserError, match="1 texts and references for 0"):
        bleu(["a"], [])


@pytest.mark.slow
def test_a_small_model_learns_to_copy_words_into_the_other_language(tmp_path):
    pairs = write_pairs(tmp_path / "p.txt", 300)
    codec = BPECodec.train([pairs.read_text()], 330)
    torch.manual_seed(0)
    base = GPT(GPTConfig(vocab_size=codec.vocab_size, context=48, n_layer=2, n_head=2, n_embd=64))
    checkpoint.save(tmp_path / "base", base, codec, {})
    config = TrainConfig(max_steps=250, batch_size=16, eval_every=125, eval_windows=16, lr_adamw=5e-3)
    start = Start(tmp_path / "fr")
    before = finetune(pairs, checkpoint.load(tmp_path / "base"), FRENCH, config, start)
    taught = checkpoint.load(tmp_path / "fr")
    assert before < 1.5 and taught.run["task"]["to"] == "fr"
    result = score(taught, [Answering(1, 20), Answering(3, 20)], data=pairs, limit=12)
    assert list(result["scores"]) == ["copy", "dictionary", "greedy", "3 beams"] and result["examples"] == 12
    assert answer(taught, ["See a10."], Answering(1, 20))[0].startswith("Vo")


def test_a_model_without_a_task_is_refused(tmp_path):
    checkpoint.save(tmp_path / "m", tiny(), BYTES, {})
    with pytest.raises(UserError, match="taught no task"):
        answer(checkpoint.load(tmp_path / "m"), ["a"])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.txt", "one field\n", "line 1 has 1 field"),
        ("a.jsonl", '{"source": "x"}\n', "line 1 is no object with source and target"),
        ("a.jsonl", "nonsense\n", "line 1 is no object"),
        ("a.tsv", "a\tb\n\n\nc\n", "line 4 has 1 field"),
    ],
)
def test_damaged_data_are_refused_by_line(name, text, words, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=words):
        read_examples(tmp_path / name, FRENCH)


def test_line_separators_inside_a_text_are_text(tmp_path):
    source = "one\u2028two\u0085three\x0cfour"
    (tmp_path / "a.jsonl").write_text(
        json.dumps({"source": source, "target": "x"}, ensure_ascii=False), encoding="utf-8"
    )
    assert [e.source for e in read_examples(tmp_path / "a.jsonl", FRENCH)] == [source]
    (tmp_path / "a.tsv").write_bytes(f"{source}\tx\r\nb\ty\r\n".encode())
    assert {e.source for e in read_examples(tmp_path / "a.tsv", FRENCH)} == {source, "b"}


def test_data_without_pairs_and_sources_that_are_cut(tmp_path):
    (tmp_path / "none.tsv").write_text("\n")
    with pytest.raises(UserError, match="holds 0 examples and none to train on"):
        build_task(tmp_path / "none.tsv", tmp_path / "o", BYTES, 64, FRENCH)
    # 1 end token + source + 8 bytes of " <to-fr>" + answer of 2 bytes and the end token: 65 ids hold 53 of the source
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"source": c * n, "target": "x"}) + "\n" for c, n in
        [(chr(97 + i), 53 if i % 2 else 54) for i in range(20)]))  # fmt: skip
    task = TaskConfig(validation=0.3, test=0.3)
    splits = build_task(tmp_path / "a.jsonl", tmp_path / "o", BYTES, 64, task)["splits"]
    assert sum(s["cut"] for s in splits.values()) == 10
    assert [lost(BYTES, "y" * n, task, 62) for n in (53, 54, 60)] == [0, 1, 7]
