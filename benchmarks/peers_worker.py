"""One peer in a process of its own: runs under the peers' Python, where gpt_core is not; see benchmarks.peers.

python peers_worker.py NAME KIND WEIGHTS.npz: builds a GPT-2 from the weights, then obeys lines of JSON on standard input:
{"logits": [ids]} gives the last logits, {"rewind": n} forgets all but n tokens, {"steps": n} the seconds of n greedy steps.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = np.ndarray
THREADS = 2


class Peer(Protocol):
    """An engine that reads tokens and gives the next logits [V]."""

    def read(self, ids: list[int]) -> Array:
        """Read tokens, one in most cases."""
        ...

    def rewind(self, n: int) -> None:
        """Forget all but the first n tokens."""
        ...


class LlamaCpp:
    """llama.cpp with its own default settings, on a GGUF file written here; kinds f32, f16, bf16, q8_0."""

    def __init__(self, weights: dict[str, Array], shape: dict[str, int], kind: str) -> None:
        import llama_cpp as api

        self.api, self.length = api, 0
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            write_gguf(path, weights, shape, kind)
            self._quiet = api.llama_log_callback(lambda level, text, data: None)
            api.llama_log_set(self._quiet, None)
            settings = api.llama_model_default_params()
            settings.use_mmap = False
            self.model = api.llama_model_load_from_file(str(path).encode(), settings)
        if not self.model:
            raise RuntimeError("llama.cpp can't load the model")
        context = api.llama_context_default_params()
        context.n_ctx = shape["context"]
        context.n_threads = context.n_threads_batch = THREADS
        self.context = api.llama_init_from_model(self.model, context)
        self.vocab = shape["vocab"]

    def read(self, ids: list[int]) -> Array:
        """See Peer."""
        tokens = (self.api.llama_token * len(ids))(*ids)
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(tokens, len(ids))):
            raise RuntimeError("llama.cpp can't decode")
        self.length += len(ids)
        return np.ctypeslib.as_array(self.api.llama_get_logits_ith(self.context, -1), (self.vocab,))

    def rewind(self, n: int) -> None:
        """See Peer."""
        self.api.llama_memory_seq_rm(self.api.llama_get_memory(self.context), 0, n, -1)
        self.length = n


_GGUF = {
    "ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
    "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
}  # fmt: skip


def gguf_name(name: str) -> str:
    """llama.cpp's name for a weight of GPT-2."""
    whole = {"wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    stem, _, end = name.rpartition(".")
    if stem in whole:
        return f"{whole[stem]}.{end}"
    _, layer, part = stem.split(".", 2)
    return f"blk.{layer}.{_GGUF[part]}.{end}"


def write_gguf(path: Path, weights: dict[str, Array], shape: dict[str, int], kind: str) -> None:
    """Write a GPT-2 as llama.cpp reads it; norms, biases and positions stay float32, as its own converter has it."""
    import gguf

    to = gguf.GGMLQuantizationType[kind.upper()]
    file = gguf.GGUFWriter(str(path), "gpt2")
    file.add_context_length(shape["context"])
    file.add_embedding_length(shape["width"])
    file.add_feed_forward_length(4 * shape["width"])
    file.add_block_count(shape["layers"])
    file.add_head_count(shape["heads"])
    file.add_layer_norm_eps(1e-5)
    file.add_vocab_size(shape["vocab"])
    file.add_tokenizer_model("no_vocab")
    for name, x in weights.items():
        stays = x.ndim < 2 or name == "wpe.weight" or kind == "f32"
        data = x if stays else gguf.quants.quantize(x, to)
        file.add_tensor(gguf_name(name), data, raw_dtype=gguf.GGMLQuantizationType.F32 if stays else to)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


class OpenVino:
    """OpenVINO's CPU plugin on a one-step graph that keeps keys and values as states; kinds f32, f16, bf16, int8."""

    def __init__(self, weights: dict[str, Array], shape: dict[str, int], kind: str) -> None:
        import openvino as ov

        graph = Graph(weights, shape, kind).model()
        precision = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": THREADS, "NUM_STREAMS": 1}
        precision["INFERENCE_PRECISION_HINT"] = "bf16" if kind == "bf16" else "f32"
        if kind == "f32":  # else it keeps its default, keys and values in 8 bits
            precision["KV_CACHE_PRECISION"] = "f32"
        compiled = ov.Core().compile_model(graph, "CPU", precision)
        self.ov, self.request, self.length, self.kept = ov, compiled.create_infer_request(), 0, {}
        self.feed = {
            "ids": np.zeros((1, 1), np.int64),
            "position": np.zeros(1, np.int64),
            "beam": np.zeros(1, np.int32),
        }

    def read(self, ids: list[int]) -> Array:
        """See Peer."""
        for id in ids:
            self.feed["ids"][0, 0], self.feed["position"][0] = id, self.length
            logits = self.request.infer(self.feed, share_inputs=True, share_outputs=True)[0].reshape(-1)
            self.length += 1
        return logits

    def rewind(self, n: int) -> None:
        """See Peer. The states can't be cut, so they are put back as they were when first asked for."""
        states = self.request.query_state()
        if n == 0:
            self.request.reset_state()
        elif n not in self.kept:
            assert self.length == n, "states are kept at the length reached"
            self.kept[n] = [np.array(s.state.data) for s in states]
        else:
            for s, data in zip(states, self.kept[n], strict=True):
                s.state = self.ov.Tensor(data)
        self.length = n


class Graph:
    """GPT-2's step as an OpenVINO model: ids [1, 1], position [1] and beam [1] in, logits [1, 1, V] out."""

    def __init__(self, weights: dict[str, Array], shape: dict[str, int], kind: str) -> None:
        import openvino as ov
        from openvino import opset13

        self.ov, self.op, self.weights, self.shape, self.kind = ov, opset13, weights, shape, kind
        self.sinks: list[Any] = []

    def weight(self, name: str) -> Any:
        """A matrix as it is stored, widened to float32 in the graph."""
        x, op = self.weights[name], self.op
        if self.kind == "f16":
            return op.convert(op.constant(x.astype(np.float16)), "f32")
        if self.kind == "int8":
            scale = np.abs(x).max(1, keepdims=True) / 127
            stored = op.convert(op.constant(np.round(x / scale).astype(np.int8)), "f32")
            return op.multiply(stored, op.constant(scale.astype(np.float32)))
        return op.constant(x)

    def linear(self, x: Any, name: str) -> Any:
        """The product of x and a matrix, and its bias."""
        y = self.op.matmul(x, self.weight(f"{name}.weight"), False, True)
        return self.op.add(y, self.op.constant(self.weights[f"{name}.bias"])) if f"{name}.bias" in self.weights else y

    def norm(self, x: Any, name: str) -> Any:
        """LayerNorm."""
        op = self.op
        y = op.mvn(x, op.constant([-1]), True, 1e-5, "inside_sqrt")
        return op.add(
            op.multiply(y, op.constant(self.weights[f"{name}.weight"])), op.constant(self.weights[f"{name}.bias"])
        )

    def past(self, new: Any, beam: Any, name: str) -> Any:
        """All keys or values [1, H, T, D]: the state, and the new one behind it."""
        from openvino.op.util import Variable, VariableInfo

        op, info = self.op, VariableInfo()
        heads, size = self.shape["heads"], self.shape["width"] // self.shape["heads"]
        info.data_shape, info.data_type = self.ov.PartialShape([1, heads, -1, size]), self.ov.Type.f32
        info.variable_id = name
        variable = Variable(info)
        empty = op.constant(np.zeros((1, heads, 0, size), np.float32))
        old = op.gather(op.read_value(empty, variable), beam, op.constant(0))
        both = op.concat([old, new], 2)
        self.sinks.append(op.assign(both, variable))
        return both

    def attention(self, x: Any, beam: Any, layer: int) -> Any:
        """Attention of one token to all before it."""
        op, heads, width = self.op, self.shape["heads"], self.shape["width"]
        qkv = op.split(self.linear(x, f"h.{layer}.attn.c_attn"), op.constant(2), 3)
        rows = op.constant(np.array([1, 1, heads, width // heads]))
        q, k, v = (op.transpose(op.reshape(part, rows, False), op.constant([0, 2, 1, 3])) for part in qkv.outputs())
        k, v = self.past(k, beam, f"k{layer}"), self.past(v, beam, f"v{layer}")
        mixed = op.transpose(op.scaled_dot_product_attention(q, k, v), op.constant([0, 2, 1, 3]))
        return self.linear(op.reshape(mixed, op.constant(np.array([1, 1, width])), False), f"h.{layer}.attn.c_proj")

    def model(self) -> Any:
        """The whole graph."""
        op, ov = self.op, self.ov
        ids, position = op.parameter([1, 1], ov.Type.i64, "ids"), op.parameter([1], ov.Type.i64, "position")
        beam = op.parameter([1], ov.Type.i32, "beam")
        for node, name in ((ids, "ids"), (position, "position"), (beam, "beam")):
            node.output(0).tensor.set_names({name})
        token, place = op.constant(self.weights["wte.weight"]), op.constant(self.weights["wpe.weight"])
        x = op.add(op.gather(token, ids, op.constant(0)), op.gather(place, position, op.constant(0)))
        for layer in range(self.shape["layers"]):
            x = op.add(x, self.attention(self.norm(x, f"h.{layer}.ln_1"), beam, layer))
            hidden = op.gelu(self.linear(self.norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc"), "tanh")
            x = op.add(x, self.linear(hidden, f"h.{layer}.mlp.c_proj"))
        logits = op.matmul(self.norm(x, "ln_f"), self.weight("wte.weight"), False, True)
        return ov.Model([op.result(logits)], self.sinks, [ids, position, beam], "gpt2")


PEERS = {"llama.cpp": LlamaCpp, "OpenVINO": OpenVino}


def obey(peer: Peer, order: dict[str, Any]) -> Any:
    """Do one thing asked for; see above."""
    if "rewind" in order:
        return peer.rewind(order["rewind"])
    if "logits" in order:
        return peer.read(order["logits"]).tolist()
    id, times = 1, []
    for _ in range(order["steps"]):
        start = time.perf_counter()
        id = int(peer.read([id]).argmax())
        times.append(time.perf_counter() - start)
    return times


def main(name: str, kind: str, path: str) -> None:
    """Answer on what was standard output; libraries that print do so elsewhere."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with np.load(path) as file:
        weights = {k: file[k] for k in file.files}
    heads, layers = int(weights.pop("heads")), int(weights.pop("layers"))
    vocab, width = weights["wte.weight"].shape
    shape = {"heads": heads, "layers": layers, "vocab": vocab, "width": width, "context": len(weights["wpe.weight"])}
    try:
        peer = PEERS[name](weights, shape, kind)
        print(json.dumps({"ready": True}), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps({"answer": obey(peer, json.loads(line))}), file=answers, flush=True)
    except Exception as e:  # whatever a library throws is the reason why it is left out
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"error": f"{type(e).__name__}: {e}"[:300]}), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
