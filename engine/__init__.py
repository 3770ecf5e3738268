"""The cache engine and its OpenAI-compatible gateway: the hot path. Runs without the console."""
