"""The options of each function, which are those of the command of its name; written by scripts/python-options.

What they mean: `tidegate copy --help`. A quantity is a text with its unit, as in "16MiB" or "80Mbit/s".
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from os import PathLike
from typing import Literal, TypedDict


class _SelectionOptions(TypedDict, total=False):
    """Shared by copy, verify."""

    exclude: str | Iterable[str]
    include: str | Iterable[str]
    exclude_from: str | PathLike[str] | Iterable[str | PathLike[str]]
    include_from: str | PathLike[str] | Iterable[str | PathLike[str]]
    filter: str | Iterable[str]
    files_from: str | PathLike[str]
    from0: bool
    min_size: str
    max_size: str
    newer_than: str | timedelta | datetime
    older_than: str | timedelta | datetime
    one_file_system: bool
    existing: bool
    ignore_existing: bool
    update: bool


class _RuleOptions(TypedDict, total=False):
    """Shared by copy, verify, get, put."""

    optimizer: str
    policy: str | PathLike[str]
    save_policy: str | PathLike[str]
    share: str
    aimd_epsilon: str
    epoch: str | timedelta
    max_workers: int
    start: int
    bounds: str | PathLike[str]
    seed: int
    utility_k: float
    utility_b: float
    utility_loss: Literal["falcon", "ldm", "none"]


class _ChannelOptions(TypedDict, total=False):
    """Shared by copy, verify."""

    data_plane: Literal["tls", "clear"]
    verify: Literal["blake3", "block"]
    limit_read: str
    limit_network: str
    limit_write: str
    limit_link: str
    retry_for: str | timedelta
    staging: str
    chunk_size: str
    chunking: Literal["on", "off"]
    pipelining: Literal["on", "off"]


class _TrustOptions(TypedDict, total=False):
    """Shared by copy, verify, estimate, ls."""

    state: str | PathLike[str]
    tls_ca: str | PathLike[str]
    tls_cert: str | PathLike[str]
    tls_key: str | PathLike[str]


class _SshOptions(TypedDict, total=False):
    """Shared by copy, verify, ls."""

    ssh: str
    via: Literal["auto", "direct", "reverse", "ssh"]
    port_range: str
    advertise: str
    remote_path: str
    install_remote: str | PathLike[str]


class _BucketOptions(TypedDict, total=False):
    """Shared by get, put."""

    s3_endpoint: str
    s3_region: str
    s3_style: Literal["path", "virtual"]
    s3_anonymous: bool
    requester_pays: bool


class CopyOptions(_SelectionOptions, _RuleOptions, _ChannelOptions, _TrustOptions, _SshOptions, total=False):
    """Options of `tidegate copy`."""

    checksum: bool
    links: Literal["keep", "skip", "follow"]
    delete: bool
    delete_excluded: bool
    max_delete: int
    backup_dir: str | PathLike[str]
    move: bool
    stall_timeout: str | timedelta
    epochs: str | PathLike[str]
    no_memory: bool


class VerifyOptions(_SelectionOptions, _RuleOptions, _ChannelOptions, _TrustOptions, _SshOptions, total=False):
    """Options of `tidegate verify`."""

    links: Literal["keep", "skip", "follow"]


class GetOptions(_RuleOptions, _BucketOptions, total=False):
    """Options of `tidegate get`."""

    overwrite: bool
    refresh_url_with: str
    convert: Literal["fastq"]
    epochs: str | PathLike[str]
    fixed: int
    format: str
    allow_fallback: bool
    source: str
    protocol: str
    layout: str
    name: str
    fields: str | Iterable[str]
    api_key: str
    email: str
    ena_url: str
    eutils_url: str
    sdl_url: str
    aws_url: str
    input_format: str
    base_url: str
    samplesheet: str
    no_sidecars: bool
    max_connections: int | str | Iterable[int | str]
    limit_rate: str
    limit_network: str
    limit_write: str
    retries: int
    retry_for: str | timedelta
    timeout: str | timedelta
    no_verify: bool
    checksum: str | Iterable[str]
    ca: str | PathLike[str]
    allow_downgrade: bool
    allow_pages: bool
    ftp_active: bool
    staging: str
    chunk_size: str
    chunking: Literal["on", "off"]
    gs_endpoint: str
    billing_project: str
    no_memory: bool
    state: str | PathLike[str]


class PutOptions(_RuleOptions, _BucketOptions, total=False):
    """Options of `tidegate put`."""

    checksum: bool
    links: Literal["skip", "follow"]
    epochs: str | PathLike[str]
    no_memory: bool
    part_size: str
    staging: str
    header: str | Iterable[str]
    no_read_back: bool
    ca: str | PathLike[str]
    timeout: str | timedelta
    retries: int
    limit_read: str
    limit_network: str
    limit_rate: str
    state: str | PathLike[str]


class EstimateOptions(_TrustOptions, total=False):
    """Options of `tidegate estimate`."""

    bytes: str
    sampler: str
    iperf3: str
    sample_time: str | timedelta
    sample_size: str
    threshold: str
    model: str
    always_sample: bool
    tcp_buffer: str
    use_history: str | timedelta
    max_streams: int
    database: str
    data_plane: Literal["tls", "clear"]
    verify: str
    limit_network: str
    limit_link: str
    server: str
    server_ca: str | PathLike[str]


class LsOptions(_TrustOptions, _SshOptions, total=False):
    """Options of `tidegate ls`."""

    recursive: bool
