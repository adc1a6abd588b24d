"""The part of KubeRay's resources that ours use, by its types; what is not here is a mistake (ray.io/v1)."""

from typing import Literal

from msgspec import Struct, field


class Known(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """A mapping that has these keys and no others."""


class Metadata(Known, frozen=True):
    """What a resource is called."""

    name: str


class Port(Known, frozen=True):
    """A port of a container."""

    container_port: int
    name: str


class SecretReference(Known, frozen=True):
    """A secret by its name."""

    name: str
    optional: bool = False


class EnvironmentSource(Known, frozen=True):
    """Where variables come from."""

    secret_ref: SecretReference


class Quantities(Known, frozen=True):
    """Shares of a node, such as 2 and 4Gi."""

    memory: str
    cpu: str | None = None


class Resources(Known, frozen=True):
    """What a container is given, and what it may take."""

    requests: Quantities
    limits: Quantities


class Execution(Known, frozen=True):
    """A command in a container."""

    command: list[str]


class HttpGet(Known, frozen=True):
    """A request to a container."""

    path: str
    port: int


class Probe(Known, frozen=True):
    """When a container is ready; times are in seconds."""

    initial_delay_seconds: int
    period_seconds: int
    timeout_seconds: int
    failure_threshold: int
    exec: Execution | None = None
    http_get: HttpGet | None = None


class Handler(Known, frozen=True):
    """What is done in a container."""

    exec: Execution


class LifeCycle(Known, frozen=True):
    """What is done before a container ends."""

    pre_stop: Handler


class Capabilities(Known, frozen=True):
    """Rights of root that are taken away."""

    drop: list[str]


class ContainerSecurity(Known, frozen=True):
    """What a container may not."""

    allow_privilege_escalation: bool
    capabilities: Capabilities


class Mount(Known, frozen=True):
    """Where a volume is."""

    mount_path: str
    name: str


class Container(Known, frozen=True):
    """One container."""

    name: str
    image: str
    env_from: list[EnvironmentSource]
    resources: Resources
    readiness_probe: Probe
    liveness_probe: Probe
    lifecycle: LifeCycle
    security_context: ContainerSecurity
    ports: list[Port] = []
    volume_mounts: list[Mount] = []


class PodSecurity(Known, frozen=True):
    """As whom a pod runs."""

    run_as_non_root: bool
    run_as_user: int
    fs_group: int


class Volume(Known, frozen=True):
    """Files of a config map."""

    name: str
    config_map: Metadata


class PodSpec(Known, frozen=True):
    """One pod."""

    termination_grace_period_seconds: int
    security_context: PodSecurity
    containers: list[Container]
    volumes: list[Volume] = []


class PodTemplate(Known, frozen=True):
    """What pods are made from."""

    spec: PodSpec


class HeadGroup(Known, frozen=True):
    """The Ray head node; options of ``ray start`` are texts."""

    ray_start_params: dict[str, str]
    template: PodTemplate


class WorkerGroup(HeadGroup, frozen=True):
    """Some worker nodes."""

    group_name: str
    replicas: int
    min_replicas: int
    max_replicas: int


class ClusterSpec(Known, frozen=True):
    """A Ray cluster."""

    ray_version: str
    head_group_spec: HeadGroup
    worker_group_specs: list[WorkerGroup]


class JobSpec(Known, frozen=True):
    """A job of Ray on a cluster of its own."""

    entrypoint: str
    backoff_limit: int
    shutdown_after_job_finishes: bool
    ttl_seconds_after_finished: int
    ray_cluster_spec: ClusterSpec


class RayCluster(Known, frozen=True):
    """A resource of the kind RayCluster."""

    api_version: Literal["ray.io/v1"]
    kind: Literal["RayCluster"]
    metadata: Metadata
    spec: ClusterSpec


class RayJob(Known, frozen=True):
    """A resource of the kind RayJob."""

    api_version: Literal["ray.io/v1"]
    kind: Literal["RayJob"]
    metadata: Metadata
    spec: JobSpec


class ConfigMap(Known, frozen=True):
    """A resource of the kind ConfigMap; ``data`` are files by their names."""

    api_version: Literal["v1"]
    kind: Literal["ConfigMap"]
    metadata: Metadata
    data: dict[str, str] = field(default_factory=dict)
