"""A hub id, against a hub of our own on the loopback: what it downloads is said first, and nothing else is asked for."""

from __future__ import annotations

import hashlib
import http.server
import json
import subprocess
import sys
import threading

import pytest

from gpt_core import checkpoint
from gpt_core.errors import UserError
from gpt_core.text.gpt2_hub import choose_files, fetch
from tests.text.gpt2_folders import hugging_face_model, small_codec, write_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(http.server.BaseHTTPRequestHandler):
    """The two routes of a hub that a download needs: a model's list of files, and the files."""

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.split("?")[0]
        self.server.asked.append(path)
        if path.startswith("/api/models/tiny/gpt2"):
            self.say(json.dumps(self.server.listing).encode(), "application/json")
        elif path.startswith("/tiny/gpt2/resolve/"):
            self.say((self.server.folder / path.rsplit("/", 1)[1]).read_bytes(), "application/octet-stream")
        else:
            self.send_error(404)

    def say(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def hub(tmp_path):
    codec = small_codec()
    folder = write_folder(hugging_face_model(codec, n_layer=2, n_head=2, n_embd=16), codec, tmp_path / "served")
    (folder / "README.md").write_text("not needed")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.folder, server.asked = folder, []
    files = [{"rfilename": p.name, "size": p.stat().st_size} for p in sorted(folder.iterdir())]
    server.listing = {
        "id": "tiny/gpt2",
        "modelId": "tiny/gpt2",
        "sha": COMMIT,
        "siblings": files,
        "tags": [],
        "downloads": 0,
    }
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def command(hub, tmp_path, *args):
    """Run in a process of its own: huggingface_hub reads its endpoint and cache when it is imported."""
    import os

    where = {
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_port}",
        "HF_HOME": str(tmp_path / "cache"),
        "HF_HUB_DISABLE_XET": "1",
    }
    line = [sys.executable, "-m", "gpt_core.text", "import-gpt2", *args]
    return subprocess.run(
        line, capture_output=True, text=True, env={**os.environ, **where, "HF_HUB_OFFLINE": "0"}, cwd=tmp_path
    )


def test_a_hub_id_is_downloaded_and_said(hub, tmp_path):
    done = command(hub, tmp_path, "tiny/gpt2", "-o", "ours")
    assert done.returncode == 0, done.stderr
    said = next(line for line in done.stderr.splitlines() if line.startswith("downloading"))
    assert said.startswith(f"downloading tiny/gpt2 from http://127.0.0.1:{hub.server_port}: config.json (")
    assert "model.safetensors (" in said and "README" not in said
    assert checkpoint.load(tmp_path / "ours").config.n_embd == 16
    assert not any("README" in path for path in hub.asked)


def test_an_unknown_id_is_one_sentence(hub, tmp_path):
    done = command(hub, tmp_path, "tiny/other", "-o", "ours")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("gpt-core: tiny/other is no folder here and can't be had from http://127.0.0.1")
    assert not (tmp_path / "ours").exists()


def test_the_smallest_sufficient_files_are_chosen():
    small = ["config.json", "merges.txt", "vocab.json"]
    listed = [*small, "README.md", "tf_model.h5", "model.safetensors", "pytorch_model.bin", "onnx/model.onnx"]
    assert choose_files(dict.fromkeys(listed)) == ["config.json", "vocab.json", "merges.txt", "model.safetensors"]
    parts = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin", "pytorch_model.bin.index.json"]
    assert choose_files(dict.fromkeys([*small, *parts]))[3:] == parts
    with pytest.raises(UserError, match=r"no model\.safetensors"):
        choose_files(dict.fromkeys(["config.json", "tf_model.h5"]))


@pytest.mark.parametrize("name", ["./absent", "a/b/c", "/nowhere/gpt2", "a b"])
def test_what_can_be_no_id_is_not_looked_up(name):
    with pytest.raises(UserError, match="neither a folder nor a hub id"):
        fetch(name, print)


def test_a_hub_that_cannot_be_reached_is_one_sentence(hub, tmp_path):
    hub.shutdown()
    hub.server_close()  # nobody listens there now
    done = command(hub, tmp_path, "tiny/gpt2", "-o", "ours")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "tiny/gpt2 is no folder here and can't be had from http://127.0.0.1" in done.stderr
