"""ServeConfig: what the app may be told when it starts. Read by the command's ``--help``: nothing heavy here."""

from __future__ import annotations

from dataclasses import dataclass

from gpt_core.options import option

AUTH_VARIABLE = "MUSIC_TRANSFORMER_AUTH"
MODEL_VARIABLE = "MUSIC_TRANSFORMER_MODEL"


@dataclass(frozen=True)
class ServeConfig:
    """How the app is served. Only this computer can reach it unless ``host`` says otherwise."""

    model: str = option("piano", f"the music model: a name or a checkpoint folder; also ${MODEL_VARIABLE}")
    device: str = option("auto", "where it runs: auto, cpu, cuda, mps")
    host: str = option("127.0.0.1", "address to listen on; 0.0.0.0 lets other computers in")
    port: int = option(7860, "port to listen on; 0 takes a free one", low=0, high=65535)
    auth: str | None = option(
        None, f"ask for a login, as NAME:PASSWORD, several apart by commas; also ${AUTH_VARIABLE}"
    )
    max_upload: float = option(8.0, "largest file a visitor may upload, in megabytes", low=0.01, high=16.0)
    queue_size: int = option(16, "how many visitors may wait for their turn", low=1, high=1000)
    folder: str | None = option(None, "where pieces are kept; none = the user's data folder")
    open_browser: bool = option(True, "open the page in the browser")
