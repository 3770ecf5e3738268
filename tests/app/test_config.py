"""Settings: which source wins, what is refused and how it is said, and the secret files."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app.config import SETTINGS, Config, ConfigError, is_loopback, load, reachable_url, split_bind
from app.secretfiles import read_or_make_secret


def _load(folder: Path, **environ: str) -> Config:
    return load({"HOME": str(folder), **{f"CACHESCOPE_{name}": value for name, value in environ.items()}})


def test_environment_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    (tmp_path / "cachescope.toml").write_text('ttl_s = 60\ncandidates = 7\n[prices."m-1"]\ninput_usd = 1\noutput_usd = 2\n')
    config = _load(tmp_path, DATA_DIR=str(tmp_path), TTL_S="30")
    assert (config.ttl_s, config.candidates, config.hnsw_above) == (30, 7, 20_000)
    assert config.price_table["m-1"].output_usd == 2


def test_file_named_in_the_environment_is_read(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.toml"
    file.write_text(f'data_dir = "{tmp_path}/there"\n')
    assert _load(tmp_path, CONFIG=str(file)).home == tmp_path / "there"


def test_default_folder_follows_the_desktop_convention(tmp_path: Path) -> None:
    assert load({"HOME": "/home/ann"}).home == Path("/home/ann/.local/share/cachescope")
    assert load({"HOME": "/home/ann", "XDG_DATA_HOME": str(tmp_path)}).home == tmp_path / "cachescope"


def test_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert _load(tmp_path, TTL_S="", UPSTREAM_URL="").ttl_s == 86_400


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("GATEWAY_BND", "x", "nearest known is CACHESCOPE_GATEWAY_BIND"),
        ("GATEWAY_BIND", "8080", "expected host:port"),
        ("GATEWAY_BIND", "127.0.0.1:0", "port from 1 to 65535"),
        ("GATEWAY_BIND", "::1:80", "in brackets"),
        ("TTL_S", "soon", "CACHESCOPE_TTL_S = 'soon'"),
        ("TTL_S", "nan", "CACHESCOPE_TTL_S"),
        ("UNDO_WINDOW_S", "inf", "CACHESCOPE_UNDO_WINDOW_S"),
        ("HOLDOUT_RATIO", "2", "CACHESCOPE_HOLDOUT_RATIO = '2'"),
        ("SEMANTIC_MAX_CHARS", "4001", "CACHESCOPE_SEMANTIC_MAX_CHARS = '4001'"),
        ("PRICES", "{", "CACHESCOPE_PRICES: expected JSON"),
        ("PRICES", '{"m": {"input_usd": 1, "output_usd": -1}}', "CACHESCOPE_PRICES.m.output_usd"),
        ("PRICES", '{"m": {"input_usd": 1, "output_usd": 1, "outptu_usd": 1}}', "nearest known is output_usd"),
        ("UPSTREAM_URL", "ftp://x", "expected an http"),
        ("CACHE_URL", "memcached://x", "expected sqlite"),
        ("SYNCHRONOUS", "OFF", "CACHESCOPE_SYNCHRONOUS"),
        ("CONFIG", "/nowhere/x.toml", "no such file"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(tmp_path: Path, name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, **{name: value})
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["ttl = 5\n", "prices = 3\n", "not toml", "[prices.m]\ninput = 1\n"])
def test_a_wrong_file_is_named_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "cachescope.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"cachescope\.toml"):
        _load(tmp_path, DATA_DIR=str(tmp_path))


@pytest.mark.parametrize("name", ["SECRET", "ADMIN_TOKEN"])
def test_a_short_secret_is_refused_without_being_shown(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, **{name: "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_secrets_and_passwords_are_not_in_the_printed_configuration(tmp_path: Path) -> None:
    config = _load(tmp_path, UPSTREAM_API_KEY="sk-secret-key", ADMIN_TOKEN="token-token-token")
    assert "sk-secret-key" not in repr(config)
    assert "token-token-token" not in repr(config)


def test_demo_never_uses_the_configured_upstream_store_or_cache(tmp_path: Path) -> None:
    config = _load(
        tmp_path,
        DATA_DIR=str(tmp_path),
        DEMO="1",
        UPSTREAM_URL="https://api.example.com/v1",
        UPSTREAM_API_KEY="sk-real",
        STORE_URL="sqlite:////var/real.db",
        CACHE_URL="redis://prod/0",
        EMBEDDER="https://embed.example.com/v1",
        OTLP_ENDPOINT="https://otel.example.com",
        GATEWAY_URL="https://gateway.example.com",
    )
    gateway, collector = config.gateway_settings(), config.collector_settings()
    assert "example.com" not in repr((gateway, collector))
    assert "sk-real" not in repr(gateway)
    assert gateway.upstream_url == "http://127.0.0.1:8089"
    assert gateway.engine.cache_url == f"sqlite:///{tmp_path}/demo/cache.db"
    assert collector.storage.telemetry_url == f"sqlite:///{tmp_path}/demo/telemetry.db"


def test_relative_databases_lie_in_the_data_folder(tmp_path: Path) -> None:
    config = _load(tmp_path, DATA_DIR=str(tmp_path), CACHE_URL="sqlite:///my.db", STORE_URL="sqlite:////var/t.db")
    assert config.shared_cache_url == f"sqlite:///{tmp_path}/my.db"
    assert config.telemetry_url == "sqlite:////var/t.db"


def test_gateway_sends_spans_to_the_collector_and_is_scraped_by_it_unless_told_otherwise(tmp_path: Path) -> None:
    config = _load(tmp_path, DATA_DIR=str(tmp_path), GATEWAY_BIND="0.0.0.0:9000", OTLP_HTTP_BIND="127.0.0.1:9001")
    assert config.gateway_settings().otlp_endpoint == "http://127.0.0.1:9001"
    assert config.collector_settings().targets[0].url == "http://127.0.0.1:9000/metrics"
    assert _load(tmp_path, DATA_DIR=str(tmp_path), OTLP_ENDPOINT="off").gateway_settings().otlp_endpoint == ""


def test_the_collector_is_given_the_secret_only_for_what_it_does_not_record(tmp_path: Path) -> None:
    said = {"DATA_DIR": str(tmp_path), "SECRET": "s" * 32, "ADMIN_TOKEN": "t" * 32}
    assert _load(tmp_path, **said).collector_settings().secret == ""
    assert _load(tmp_path, **said, RECORD_PROMPTS="0").collector_settings().secret == "s" * 32


def test_secret_file_is_private_and_made_once_by_many(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(read_or_make_secret(tmp_path / "s", setting="secret"))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(found)) == 1
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["s"]


def test_secret_file_that_others_can_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("x" * 64)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_or_make_secret(file, setting="secret")


def test_unusable_data_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")):
        with pytest.raises(ConfigError, match="CACHESCOPE_DATA_DIR"):
            _load(tmp_path, DATA_DIR=str(folder)).prepare()


def test_data_folder_is_private(tmp_path: Path) -> None:
    _load(tmp_path, DATA_DIR=str(tmp_path / "d")).prepare()
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700


def test_open_binds_need_a_token_or_the_word_insecure(tmp_path: Path) -> None:
    config = _load(tmp_path, CONSOLE_BIND="0.0.0.0:8501", OTLP_HTTP_BIND="0.0.0.0:4318")
    for service in ("console", "collector"):
        with pytest.raises(ConfigError, match=r"0\.0\.0\.0"):
            config.guard(service)
    _load(tmp_path, OTLP_HTTP_BIND="0.0.0.0:4318", OTLP_TOKEN="t").guard("collector")
    _load(tmp_path, CONSOLE_BIND="0.0.0.0:8501", INSECURE="1").guard("console")


def test_addresses() -> None:
    assert split_bind("[::1]:80") == ("::1", 80)
    assert reachable_url("[::]:80") == "http://[::1]:80"
    assert is_loopback("localhost:1")
    assert not is_loopback("example.com:1")


def test_every_setting_is_described() -> None:
    assert len({setting.name for setting in SETTINGS}) == len(SETTINGS) == len(Config.model_fields)
    assert all(setting.description.endswith(".") and setting.env == f"CACHESCOPE_{setting.name.upper()}" for setting in SETTINGS)


SOURCES = """
families_file = "families.toml"
[[scrape_targets]]
url = "https://vllm:8000/metrics"
username = "ann"
password = "s3cret"
ca_file = "/etc/ca.pem"
verify = false
max_series = 7
[[prometheus_servers]]
url = "http://prometheus:9090"
match = 'job="vllm"'
step_s = 60
[[redis_servers]]
url = "redis://watcher:s3cret@cache:6379/0"
keys_per_tick = 0
"""


def test_further_sources_reach_the_collector_and_their_secrets_no_error(tmp_path: Path) -> None:
    file = tmp_path / "cachescope.toml"
    file.write_text(SOURCES)
    environ = {"HOME": str(tmp_path), "CACHESCOPE_DATA_DIR": str(tmp_path), "CACHESCOPE_CONFIG": str(file)}
    settings = load(environ).collector_settings()
    target = settings.targets[1]
    assert (target.url, target.username, target.password) == ("https://vllm:8000/metrics", "ann", "s3cret")
    assert (target.ca_file, target.verify, target.max_series, target.interval_s) == ("/etc/ca.pem", False, 7, 5.0)
    assert [(one.url, one.match, one.step_s, one.backfill_s) for one in settings.servers] == [
        ("http://prometheus:9090", 'job="vllm"', 60.0, 3_600.0)
    ]
    assert [(one.url, one.keys_per_tick) for one in settings.redis] == [("redis://watcher:s3cret@cache:6379/0", 0)]
    assert settings.families_file == str(tmp_path / "families.toml")
    demo = load(environ, demo=True).collector_settings()
    assert (len(demo.targets), demo.servers, demo.redis) == (1, (), ())
    for wrong, told in (
        ('"redis://watcher', '"watcher'),
        ("step_s = 60", "step_s = 1"),
        ("verify = false", "verfy = false"),
        ('password = "s3cret"', 'password = ["s3cret"]'),
    ):
        file.write_text(SOURCES.replace(wrong, told))
        with pytest.raises(ConfigError) as caught:
            load(environ)
        assert "s3cret" not in str(caught.value)
    assert "password" in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "refused"),
    [
        ("[[scrape_targets]]\nurl='http://x/scrape?target=a'\n[[scrape_targets]]\nurl='http://x/scrape?target=b'", False),
        ("[[scrape_targets]]\nurl='http://x/scrape?target=a'\n[[scrape_targets]]\nurl='http://x/scrape?target=a'", True),
        ("[[prometheus_servers]]\nurl='http://x'\nmatch='a=\"1\"'\n[[prometheus_servers]]\nurl='http://x'", False),
        ("[[prometheus_servers]]\nurl='http://x'\nstep_s=10\n[[prometheus_servers]]\nurl='http://x'", True),
        ("[[redis_servers]]\nurl='redis://a:s3cret@x'\n[[redis_servers]]\nurl='redis://x'", True),
    ],
)
def test_a_source_is_named_once(tmp_path: Path, rows: str, *, refused: bool) -> None:
    (tmp_path / "cachescope.toml").write_text(rows)
    if not refused:
        _load(tmp_path, DATA_DIR=str(tmp_path))
        return
    with pytest.raises(ConfigError, match="rows 1 and 2 have the same url") as caught:
        _load(tmp_path, DATA_DIR=str(tmp_path))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (("0", "180", "0"), "CACHESCOPE_KEEP_MINUTES_DAYS = '180': expected 0 .for ever., as keep_raw_days is"),
        (("30", "10", "0"), "at least keep_raw_days, which is 30"),
        (("30", "180", "90"), "KEEP_HOURS_DAYS = '90': expected 0 .for ever., or at least keep_minutes_days, which is 180"),
        (("30", "30", "0"), ""),
        (("30", "0", "0"), ""),
    ],
)
def test_what_sums_is_kept_as_long_as_what_it_sums(tmp_path: Path, days: tuple[str, str, str], said: str) -> None:
    given = dict(zip(("KEEP_RAW_DAYS", "KEEP_MINUTES_DAYS", "KEEP_HOURS_DAYS"), days, strict=True))
    if not said:
        _load(tmp_path, **given)
        return
    with pytest.raises(ConfigError, match=said):
        _load(tmp_path, **given)


def test_tls_needs_certificate_and_key_and_turns_the_collector_s_url_to_https(tmp_path: Path) -> None:
    config = _load(tmp_path, DATA_DIR=str(tmp_path), OTLP_TLS_CERT="/c.pem", OTLP_TLS_KEY="/k.pem", OTLP_TLS_CA="/ca.pem")
    tls = config.collector_settings().tls
    assert tls is not None
    assert (str(tls.certificate), str(tls.key)) == ("/c.pem", "/k.pem")
    gateway = config.gateway_settings()
    assert (gateway.otlp_endpoint, gateway.otlp_ca) == ("https://127.0.0.1:4318", "/ca.pem")
    assert _load(tmp_path, DATA_DIR=str(tmp_path)).collector_settings().tls is None
    with pytest.raises(ConfigError, match="otlp_tls_key is not"):
        _load(tmp_path, DATA_DIR=str(tmp_path), OTLP_TLS_CERT="/c.pem").collector_settings()


def test_the_demo_asks_no_judge_and_holds_a_little_out_unless_told(tmp_path: Path) -> None:
    judged = {"CACHESCOPE_JUDGE_URL": "http://judge.example/v1", "CACHESCOPE_JUDGE_MODEL": "m", "CACHESCOPE_JUDGE_API_KEY": "sk-secret"}
    for demo, more, expected in (
        (True, {}, ("", "", 0.01)),
        (True, {"CACHESCOPE_HOLDOUT_RATIO": "0"}, ("", "", 0.0)),
        (False, {}, ("http://judge.example/v1", "sk-secret", 0.0)),
        (False, {"CACHESCOPE_HOLDOUT_RATIO": "0.2"}, ("http://judge.example/v1", "sk-secret", 0.2)),
    ):
        config = load({"HOME": str(tmp_path), **judged, **more}, demo=demo)
        config.prepare()
        engine = config.engine_settings()
        assert (engine.judge_url, engine.judge_api_key, engine.holdout_ratio) == expected
        assert "sk-secret" not in repr(config)
