"""gpt_core: ids in, ids out."""
