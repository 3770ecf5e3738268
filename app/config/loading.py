"""From the TOML file and the environment to a `Config`, with one clear line for whatever is wrong."""

from __future__ import annotations

import difflib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
    TomlConfigSettingsSource,
)

from app.config.kept import KeptSettings
from app.config.model import PREFIX, Config, PriceTable
from app.config.sources import RedisTable, ServerTable, TargetTable
from app.errors import ConfigError

CONFIG_VARIABLE = "CACHESCOPE_CONFIG"  # the TOML file's path; the one variable that is no setting
FILE_NAME = "cachescope.toml"
# The settings that are tables or lists of tables, with what a row of each holds.
TABLES: Mapping[str, type[BaseModel]] = {
    "prices": PriceTable,
    "scrape_targets": TargetTable,
    "prometheus_servers": ServerTable,
    "redis_servers": RedisTable,
}


def _default_data_dir(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_DATA_HOME", "")
    if base and Path(base).is_absolute():
        return Path(base) / "cachescope"
    home = environ.get("HOME", "")
    return (Path(home) if home else Path.home()) / ".local" / "share" / "cachescope"


class Setting(NamedTuple):
    """One row of the documentation's table."""

    name: str
    env: str
    default: str
    description: str


def _settings() -> Iterator[Setting]:
    inherited = KeptSettings.model_fields
    # pydantic names inherited fields first; readers want them last.
    for name in sorted(Config.model_fields, key=lambda name: name in inherited):
        field = Config.model_fields[name]
        default = "" if name == "data_dir" else field.get_default(call_default_factory=True)
        if isinstance(default, SecretStr):
            default = default.get_secret_value()
        shown = json.dumps(default) if isinstance(default, bool | dict | tuple) else str(default)
        yield Setting(name, f"{PREFIX}{name.upper()}", shown, field.description or "")


SETTINGS: tuple[Setting, ...] = tuple(_settings())


class _Environ(EnvSettingsSource):
    """The environment as given to `load`, not the process's own."""

    def __init__(self, settings_cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in environ.items() if name.startswith(PREFIX)}
        super().__init__(settings_cls)

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name: value for name, value in self._given.items() if value}


def load(environ: Mapping[str, str], *, demo: bool | None = None) -> Config:
    """Return the configuration of this environment. demo: overrides the setting when not None. Raises ConfigError."""
    default_dir = _default_data_dir(environ)
    _refuse_unknown(environ)
    file = _config_file(environ, default_dir)
    values = _read_toml(file) if file else {}
    _refuse_unknown_keys(values, file)

    class Loaded(Config):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, _Environ(settings_cls, environ), TomlConfigSettingsSource(settings_cls, file)

    given: dict[str, Any] = {} if demo is None else {"demo": demo}
    if not environ.get(f"{PREFIX}DATA_DIR") and "data_dir" not in values:
        given["data_dir"] = default_dir
    try:
        return Loaded(**given)
    except SettingsError as error:
        field = next((name for name in TABLES if f'"{name}"' in str(error)), "a setting")
        raise ConfigError(f"{PREFIX}{field.upper()}: expected JSON") from error
    except ValidationError as error:
        raise ConfigError(_explain(error, environ, file)) from error


def _config_file(environ: Mapping[str, str], default_dir: Path) -> Path | None:
    named = environ.get(CONFIG_VARIABLE, "")
    if named:
        return Path(named).expanduser()
    data_dir = environ.get(f"{PREFIX}DATA_DIR", "")
    file = (Path(data_dir).expanduser() if data_dir else default_dir) / FILE_NAME
    try:
        return file if file.is_file() else None
    except OSError as error:
        raise ConfigError(f"cannot look for {file}: {error.strerror}") from error


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"{CONFIG_VARIABLE} names {file}, and there is no such file") from error
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is not valid TOML: {error}") from error


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"; the nearest known is {close[0]}" if close else ""


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = [setting.env for setting in SETTINGS]
    for name in sorted(environ):
        if name.startswith(PREFIX) and name != CONFIG_VARIABLE and name not in known:
            raise ConfigError(f"unknown setting {name} in the environment{_nearest(name, [*known, CONFIG_VARIABLE])}")


def _refuse_unknown_keys(values: Mapping[str, Any], file: Path | None) -> None:
    known = list(Config.model_fields)
    for name in values:
        if name not in known:
            raise ConfigError(f"unknown setting {name} in {file}{_nearest(name, known)}")


def _explain(error: ValidationError, environ: Mapping[str, str], file: Path | None) -> str:
    """Return one line for the first fault: which setting, from where, its value unless secret, what is expected."""
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    top = path[0] if path else ""
    variable = f"{PREFIX}{top.upper()}"
    origin = "" if environ.get(variable) or not file else f" in {file}"
    name = ".".join([variable if environ.get(variable) else top, *path[1:]]) + origin
    field = Config.model_fields.get(top)
    secret = field is None or field.annotation is SecretStr or "url" in top or path[-1] in {"bearer", "password", "url"}
    given = first["input"]
    plain = isinstance(given, str | int | float) and not (isinstance(given, float) and math.isnan(given))
    shown = f" = {given!r}" if plain and not secret else ""
    if first["type"] == "extra_forbidden":
        row = TABLES.get(top)
        return f"unknown name {name}{_nearest(path[-1], list(row.model_fields) if row else list(Config.model_fields))}"
    return f"{name}{shown}: {first['msg'].removeprefix('Value error, ')}"
