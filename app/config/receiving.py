"""The settings of the OTLP receivers: TLS and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic_settings import BaseSettings

from app.errors import ConfigError
from collectors.settings import Tls


class ReceivingSettings(BaseSettings):
    """What the receivers take, and over what."""

    otlp_tls_cert: str = Field(
        default="", description="PEM file of the certificate chain of both OTLP ports. Empty: plain text. Goes with otlp_tls_key."
    )
    otlp_tls_key: str = Field(default="", description="PEM file of that certificate's private key, without a passphrase.")
    otlp_tls_ca: str = Field(
        default="",
        description="PEM file of the authority that the gateway and the health checks trust for the OTLP ports. Empty: the system's.",
    )
    otlp_max_body_bytes: int = Field(
        default=64 * 1024 * 1024, ge=1024, description="Largest telemetry request, before and after decompression."
    )
    otlp_queue_bytes: int = Field(
        default=128 * 1024 * 1024,
        ge=1024,
        description="Telemetry accepted and not yet committed; above it senders are told to wait.",
    )
    otlp_max_spans: int = Field(default=100_000, ge=1, description="Most spans of one telemetry request; those after them are refused.")
    otlp_max_series: int = Field(
        default=20_000,
        ge=1,
        description="Most series of metrics sent by OTLP in a day; points of further ones are refused.",
    )
    max_attributes: int = Field(
        default=1_024, ge=1, description="Most attributes of one span, event, link or resource; those after them are left out and counted."
    )
    max_attribute_chars: int = Field(default=65_536, ge=64, description="Longer attribute strings of spans are cut, with a marker.")

    def tls(self) -> Tls | None:
        """Return the files, None for plain text. Raises ConfigError when one of the two is missing."""
        if bool(self.otlp_tls_cert) != bool(self.otlp_tls_key):
            given, lacking = ("otlp_tls_cert", "otlp_tls_key") if self.otlp_tls_cert else ("otlp_tls_key", "otlp_tls_cert")
            raise ConfigError(f"{given} is set and {lacking} is not: set both, or neither for plain text")
        return Tls(Path(self.otlp_tls_cert), Path(self.otlp_tls_key)) if self.otlp_tls_cert else None

    def receiving(self) -> dict[str, Any]:
        """Return what the receivers' constructors take, by the names of CollectorSettings. Raises ConfigError as tls does."""
        return {
            "tls": self.tls(),
            "max_body_bytes": self.otlp_max_body_bytes,
            "queue_bytes": self.otlp_queue_bytes,
            "max_request_spans": self.otlp_max_spans,
            "max_series": self.otlp_max_series,
            "max_attributes": self.max_attributes,
            "max_attribute_chars": self.max_attribute_chars,
        }
