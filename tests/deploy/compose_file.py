"""The part of a Compose file that ours use, by its types; what is not here is a mistake."""

from typing import Literal

from msgspec import Struct

Condition = Literal["service_started", "service_healthy", "service_completed_successfully"]


class Known(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mapping that has these keys and no others."""


class Build(Known, frozen=True):
    """How an image is made; paths are relative to the file."""

    context: str
    dockerfile: str


class HealthCheck(Known, frozen=True):
    """When a service is healthy; times are such as 5s."""

    test: str | list[str]
    interval: str
    timeout: str
    retries: int
    start_period: str = "0s"


class Dependency(Known, frozen=True):
    """What another service must have come to."""

    condition: Condition


class Deployment(Known, frozen=True):
    """How many containers a service has."""

    replicas: int


class Service(Known, frozen=True):
    """One service."""

    image: str
    build: Build | None = None
    command: list[str] | None = None
    environment: dict[str, str] = {}
    ports: list[str] = []
    volumes: list[str] = []
    depends_on: dict[str, Dependency] = {}
    healthcheck: HealthCheck | None = None
    deploy: Deployment | None = None
    shm_size: str | None = None
    stop_grace_period: str | None = None
    init: bool = False


class ComposeFile(Known, frozen=True):
    """A whole file."""

    services: dict[str, Service]
    volumes: dict[str, None] = {}
    name: str | None = None
