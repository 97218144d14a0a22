"""GPT-2 in Hugging Face's layout: which name is which, which matrices lie on their side, what its config says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpt_core.config import GPTConfig
from gpt_core.errors import UserError

PREFIX = "transformer."
# Hugging Face keeps these as [in, out] (its Conv1D); a Linear keeps [out, in].
TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
IGNORED = (".attn.bias", ".attn.masked_bias")  # masks that older files carry along
_ACTIVATIONS = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu": "gelu", "relu": "relu"}
# Settings of a GPT-2 config that change the model, with the one value this core has.
_FIXED = {"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False}
_BLOCK = (
    "ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
    "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias",
)  # fmt: skip


def lies_on_its_side(name: str) -> bool:
    """Say whether the two layouts hold transposes of each other under ``name``."""
    return name.endswith(TRANSPOSED)


def weight_names(config: GPTConfig) -> Iterator[str]:
    """Our names of a GPT-2's weights; Hugging Face's are the same behind ``transformer.``, ``lm_head.weight`` excepted."""
    yield from ("wte.weight", "wpe.weight")
    for layer in range(config.n_layer):
        yield from (f"h.{layer}.{name}" for name in _BLOCK)
    yield from ("ln_f.weight", "ln_f.bias")
    if not config.tied:
        yield "lm_head.weight"


def weight_shape(name: str, config: GPTConfig) -> tuple[int, ...]:
    """The shape of a weight in our layout."""
    width = config.n_embd
    rows = {"wte": config.vocab_size, "lm_head": config.vocab_size, "wpe": config.context}
    *path, part, kind = name.split(".")
    if part in rows:
        return (rows[part], width)
    out = {"c_attn": 3 * width, "c_fc": 4 * width}.get(part, width)
    if kind == "bias" or part.startswith("ln"):
        return (out,)
    return (out, 4 * width if path[-1:] == ["mlp"] and part == "c_proj" else width)


def read_config(data: dict[str, Any], where: str) -> GPTConfig:
    """Hugging Face's config.json -> ours; UserError names a setting that this core does not have."""
    if data.get("model_type", "gpt2") != "gpt2":
        raise UserError(f"{where} is a {data['model_type']} model; only GPT-2 can be imported")
    for key, value in _FIXED.items():
        if data.get(key, value) != value:
            raise UserError(f"{where} has {key} {data[key]}; only {value} can be imported")
    activation = data.get("activation_function", "gelu_new")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise UserError(f"{where} has the activation {activation!r}; only {', '.join(_ACTIVATIONS)} can be imported")
    try:
        width, context = int(data["n_embd"]), int(data.get("n_positions") or data["n_ctx"])
        vocab_size, n_layer, n_head = int(data["vocab_size"]), int(data["n_layer"]), int(data["n_head"])
        eps = float(data.get("layer_norm_epsilon", 1e-5))
    except (KeyError, TypeError, ValueError, OverflowError) as e:
        raise UserError(
            f"{where} lacks a GPT-2 setting or holds a wrong one ({e}); it is no GPT-2 config.json"
        ) from None
    if data.get("n_inner") not in (None, 4 * width):
        raise UserError(f"{where} has n_inner {data['n_inner']}; only 4 x n_embd = {4 * width} can be imported")
    try:
        return GPTConfig(
            vocab_size, context, n_layer, n_head, width, activation=_ACTIVATIONS[activation],
            tied=bool(data.get("tie_word_embeddings", True)), norm_eps=eps,
        )  # fmt: skip
    except UserError as e:
        raise UserError(f"{where}: {e}") from None


def write_config(config: GPTConfig, eos: int | None) -> dict[str, Any]:
    """Ours -> Hugging Face's config.json; UserError names what GPT-2 does not have."""
    c, plain = config, GPTConfig()
    for key in ("position", "norm", "bias", "qk_norm", "embed_norm"):
        if getattr(c, key) != getattr(plain, key):
            raise UserError(
                f"the model has {key} {getattr(c, key)}; GPT-2 has {getattr(plain, key)}, so it cannot be exported"
            )
    names = {ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())}
    if c.activation not in names:
        raise UserError(f"the model has the activation {c.activation}; GPT-2 files know {', '.join(names)}")
    return {
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": names[c.activation],
        "vocab_size": c.vocab_size, "n_positions": c.context, "n_ctx": c.context, "n_embd": c.n_embd, "n_layer": c.n_layer,
        "n_head": c.n_head, "n_inner": None, "layer_norm_epsilon": c.norm_eps, "tie_word_embeddings": c.tied,
        "bos_token_id": eos, "eos_token_id": eos, "attn_pdrop": c.dropout, "embd_pdrop": c.dropout, "resid_pdrop": c.dropout,
    }  # fmt: skip
