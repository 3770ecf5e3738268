"""The settings a person writes: one TOML file and the environment (which wins), composed into what each part receives."""

from app.config.addresses import is_loopback, reachable_url, split_bind
from app.config.loading import CONFIG_VARIABLE, FILE_NAME, SETTINGS, TABLES, Setting, load
from app.config.model import DEMO_PRICES, PREFIX, Config
from app.errors import ConfigError

__all__ = [
    "CONFIG_VARIABLE",
    "DEMO_PRICES",
    "FILE_NAME",
    "PREFIX",
    "SETTINGS",
    "TABLES",
    "Config",
    "ConfigError",
    "Setting",
    "is_loopback",
    "load",
    "reachable_url",
    "split_bind",
]
