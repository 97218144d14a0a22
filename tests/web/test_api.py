"""The endpoints through gradio_client, as a program uses them; and the page behind a login."""

from __future__ import annotations

import concurrent.futures
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from music_transformer.midi import read_midi

from .conftest import SAMPLE

pytestmark = pytest.mark.browser  # the real server, though no browser


@pytest.fixture(scope="module")
def api(server):
    from gradio_client import Client

    return Client(server, verbose=False)


def midi(path: str) -> bytes:
    data = Path(path).read_bytes()
    assert data[:4] == b"MThd"
    return data


def test_every_action_has_its_name(api):
    names = set(api.view_api(return_format="dict")["named_endpoints"])
    assert {"/continue", "/generate", "/inspect", "/render", "/next_events", "/recreate"} <= names


def test_upload_continue_midi_and_again(api):
    from gradio_client import handle_file

    files, facts = api.predict(file=handle_file(str(SAMPLE)), seconds=3, takes=2, seed=5, api_name="/continue")
    assert facts["seed"] == 5 and len(files) == 2 and midi(files[0]) != midi(files[1])
    before = read_midi(SAMPLE)[0].notes
    after = read_midi(midi(files[0]))[0].notes
    assert len(after) > len(before) and [n.pitch for n in after[: len(before)]] == [n.pitch for n in before]
    made, same = api.predict(file=handle_file(files[1]), api_name="/recreate")
    assert same is True and midi(made) == midi(files[1])
    assert len(api.predict(file=handle_file(str(SAMPLE)), at=2.0, api_name="/next_events")) == 10
    assert api.predict(file=handle_file(files[0]), api_name="/inspect")["receipt"]["seed"] == 5


def test_errors_are_sentences(api):
    with pytest.raises(Exception, match="at most 4 takes"):
        api.predict(seconds=3, takes=40, seed=1, api_name="/generate")


def test_visitors_at_once_get_what_each_would_get_alone(server):
    from gradio_client import Client

    def ask(seed: int) -> bytes:
        files, _ = Client(server, verbose=False).predict(seconds=2, takes=1, seed=seed, api_name="/generate")
        return midi(files[0])

    alone = [ask(seed) for seed in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == alone
    assert len(set(alone)) == 4


def test_uploads_beyond_the_limit_are_refused_by_gradio_too(server):
    body = (
        b"--x\r\nContent-Disposition: form-data; name=files; filename=a.mid\r\n\r\n"
        + bytes(1_200_000)
        + b"\r\n--x--\r\n"
    )
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(f"{server}/gradio_api/upload", body, headers))
    assert caught.value.code == 413
