"""A real server in a process of its own, visitors who treat it badly, and one who must not notice."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil

from .conftest import SAMPLE

PATIENCE = 300.0  # seconds: what a loaded machine may take
ORDER = {"seconds": 1.0, "seed": 7, "temperature": 1.0}
LONG = {"seconds": 300.0, "seed": 1, "takes": 2, "temperature": 1.0}  # seconds of work for the dense model


class Server:
    """``music-transformer serve`` over a copy of a model, on a free port."""

    def __init__(self, model: Path, root: Path) -> None:
        self.model, self.folder = root / "tiny", root / "pieces"
        shutil.copytree(model, self.model)
        command = [
            sys.executable,
            "-m",
            "music_transformer",
            "serve",
            "--port",
            "0",
            "--no-open-browser",
            "--device",
            "cpu",
        ]
        command += ["--model", str(self.model), "--folder", str(self.folder)]
        environment = {**os.environ, "TMPDIR": str(root), "OMP_NUM_THREADS": "1"}
        self.log = root / "log"  # what a terminal would show of warnings and errors
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "http://" in line, f"the server said {line!r} and ended with {self.process.poll()}"
        self.url = line.split(" at ")[1].split()[0]
        self.address = ("127.0.0.1", int(self.url.rsplit(":", 1)[1]))

    def visitor(self) -> httpx.Client:
        """A newcomer with a cookie of their own."""
        # A connection for each request: one that is kept may be closed for its idleness just when it is used again.
        client = httpx.Client(base_url=self.url, timeout=PATIENCE, headers={"Connection": "close"})
        client.get("/mt/config").raise_for_status()
        return client

    def megabytes(self) -> float:
        """Memory of the server."""
        return psutil.Process(self.process.pid).memory_info().rss / 1e6

    def settled(self, most: float) -> float:
        """Memory once it is below ``most``, or after ten seconds."""
        end = time.monotonic() + 10
        while self.megabytes() > most and time.monotonic() < end:
            time.sleep(0.2)
        return self.megabytes()

    def raw(self, head: str, body: bytes = b"") -> socket.socket:
        """A connection that has sent a request's head and perhaps not all of its body."""
        made = socket.create_connection(self.address, PATIENCE)
        made.sendall(f"{head}\r\nHost: {self.url[7:]}\r\n".encode() + b"Connection: close\r\n" + body)
        return made

    def end(self) -> None:
        """Stop it, whatever it does."""
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()


def upload(client: httpx.Client, data: bytes | None = None, name: str = "minuet.mid") -> httpx.Response:
    """Bring a file."""
    return client.post("/mt/pieces", params={"name": name}, content=SAMPLE.read_bytes() if data is None else data)


def compose(client: httpx.Client, **order: object) -> list[dict]:
    """All messages of a composition."""
    answer = client.post("/mt/compose", json={**ORDER, **order})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@contextlib.contextmanager
def listening(client: httpx.Client, order: dict, path: str = "/mt/compose") -> Iterator[Iterator[dict]]:
    """The messages of a composition as they come; leaving the block closes the connection in the middle."""
    with client.stream("POST", path, json=order) as answer:
        yield (json.loads(line) for line in answer.iter_lines())


def take_of(client: httpx.Client) -> bytes:
    """The MIDI file of the take that a fixed order gives, without what follows from its time and place."""
    piece = compose(client)[-1]["pieces"][0]
    return client.get(f"/mt/pieces/{piece}/midi").content


class Witness:
    """Another visitor, who looks at a piece and downloads it again and again, and notes whatever goes wrong or is slow."""

    def __init__(self, server: Server) -> None:
        self.client = server.visitor()
        self.piece = upload(self.client).json()
        self.wrong: list[str] = []
        self.looks, self.slowest = 0, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()
        self.client.close()

    def _look(self) -> None:
        data = SAMPLE.read_bytes()
        while not self.looks or not self._over.wait(0.1):  # at least once, however soon it is over
            begun = time.monotonic()
            try:
                file = self.client.get(f"/mt/pieces/{self.piece['id']}/midi")
                seen = self.client.get("/mt/pieces").json()
                if file.content != data or [p["id"] for p in seen] != [self.piece["id"]]:
                    self.wrong.append(f"{file.status_code} {file.text[:80]} {seen!r:.80}")
            except (httpx.HTTPError, ValueError) as error:
                self.wrong.append(repr(error))
            self.looks += 1
            self.slowest = max(self.slowest, time.monotonic() - begun)
