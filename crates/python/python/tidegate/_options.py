"""The options of each function, which are those of the command of its name; written by scripts/python-options.

A quantity is a text with its unit, as in "16MiB" or "80Mbit/s", or a number of seconds, of bit/s or of bytes.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from os import PathLike
from typing import Literal, TypedDict

from ._asked import Rule
from ._units import BitsPerSecond, Bytes, Seconds


class _SelectionOptions(TypedDict, total=False):
    """Shared by copy, verify, put.

    exclude: Leave out what PATTERN matches, as rsync does; the first of all rules that matches decides
    include: Take what PATTERN matches, whatever later rules say
    exclude_from: Leave out what the patterns in FILE match, one a line (- is standard input)
    include_from: Take what the patterns in FILE match
    filter: Add a filter rule in rsync's language: + - P R H S ! . : and a pattern or a file
    files_from: Copy only the names in FILE, relative to the one source, and what lies in directories among them
    from0: Files of names and of rules have a NUL byte behind each, not a line's end
    min_size: Leave out files smaller than SIZE: bytes, or with rsync's suffixes as in 1.5M, 10KB, 2G-1
    max_size: Leave out files larger than SIZE
    newer_than: Leave out files that were not modified after TIME: an age such as 7d, or a local time as 2026-01-31 or
        2026-01-31T12:00:00, or with a zone 2026-01-31T12:00:00Z
    older_than: Leave out files that were not modified before TIME
    one_file_system: Do not enter directories on which another file system is mounted
    no_hidden: Leave out files and directories whose names begin with a dot, unless a rule takes them
    existing: Make nothing new at the destination
    ignore_existing: Leave files alone that are at the destination
    update: Leave files alone that are newer at the destination
    """

    exclude: str | Iterable[str]
    include: str | Iterable[str]
    exclude_from: str | PathLike[str] | Iterable[str | PathLike[str]]
    include_from: str | PathLike[str] | Iterable[str | PathLike[str]]
    filter: str | Iterable[str]
    files_from: str | PathLike[str]
    from0: bool
    min_size: str | Bytes
    max_size: str | Bytes
    newer_than: str | timedelta | datetime
    older_than: str | timedelta | datetime
    one_file_system: bool
    no_hidden: bool
    existing: bool
    ignore_existing: bool
    update: bool


class _RuleOptions(TypedDict, total=False):
    """Shared by copy, verify, get, put.

    optimizer: The rule that sets the numbers of readers, streams and writers: auto, universal, fixed:N,
        fixed:READ,NETWORK,WRITE, policy, explore, aimd, falcon, gradient, bayesian, marlin, model_fit, fts3, or
        coupled:RULE; constants follow, as in aimd:epsilon=1% (`tidegate rules` lists them). Or a rule of your own:
        'exec:PROGRAM ARGUMENT…' or python:MODULE:NAME (docs/own-rule.md) (default: auto)
    share: How hard the rule auto pushes beside the traffic of others: background (one stream, which has what others leave),
        fair (no more than the streams get that would fill the path alone), full (as many streams as still bring something)
        (default: fair)
    congestion: Which congestion control streams have: auto (one that goes by losses; under the rule auto also bbr where
        packets are lost though nothing queues, under a pace unless share is full), system (what the system has), or the
        name of one that the kernel knows, such as cubic or bbr (default: auto)
    aimd_epsilon: What the rule aimd takes for a change of throughput, as a share of it: 0.02 or 2%
    epoch: Length of an epoch (default: 1s; 3s for the published rules)
    seed: Seed of rules that draw at random (default: 1)
    utility_k: Base K of the utility T/K^n of the rules that climb one (1.02: FastBioDL, table 1)
    utility_b: Weight B of lost segments in the utility (10: Falcon)
    utility_loss: Form of the loss term: T·B·L, B·L, or none
    """

    optimizer: str | Rule
    share: str
    congestion: str
    aimd_epsilon: str | float
    epoch: str | timedelta | Seconds
    seed: int
    utility_k: float
    utility_b: float
    utility_loss: Literal["falcon", "ldm", "none"]


class _ChannelOptions(TypedDict, total=False):
    """Shared by copy, verify.

    data_plane: How the bulk travels (default: tls)
    verify: How content is checked (default: blake3)
    limit_read: Rate of each reader, such as 80Mbit/s
    limit_network: Rate of each network stream
    limit_write: Rate of each writer
    limit_link: Rate of all streams together
    staging: Memory for blocks between the stages, at each end (default: 16MiB)
    chunk_size: Bytes of a large file given to one worker at a time (default: 64MiB)
    chunking: Whether large files are moved in parallel pieces, or each by one stream that reads it, too (default: on)
    pipelining: Whether a connection serves file after file, or one file each, which it reads itself (default: on)
    """

    data_plane: Literal["tls", "clear"]
    verify: Literal["blake3", "block"]
    limit_read: str | BitsPerSecond
    limit_network: str | BitsPerSecond
    limit_write: str | BitsPerSecond
    limit_link: str | BitsPerSecond
    staging: str | Bytes
    chunk_size: str | Bytes
    chunking: Literal["on", "off"]
    pipelining: Literal["on", "off"]


class _TrustOptions(TypedDict, total=False):
    """Shared by copy, verify, put, estimate, ls, endpoint.

    state: Directory for keys, records of what was verified, and run logs (default: $XDG_STATE_HOME/tidegate, or
        ~/.local/state/tidegate; if neither can be written, a temporary one)
    tls_ca: Certificate authority of the site's own PKI (PEM); replaces tickets by mutual TLS
    tls_cert: Our certificate chain (PEM)
    tls_key: Our private key (PEM)
    """

    state: str | PathLike[str]
    tls_ca: str | PathLike[str]
    tls_cert: str | PathLike[str]
    tls_key: str | PathLike[str]


class _SshOptions(TypedDict, total=False):
    """Shared by copy, verify, put, ls.

    ssh: The command that is run for ssh, with its options, as in 'ssh -p 2222' (default: ssh)
    via: Which way data takes to a host that is reached by ssh (default: auto)
    port_range: The ports that data may be sent to, there and with via reverse here (default: any that is free)
    advertise: By which name or address its port is reached from here (default: as ssh does)
    remote_path: Where `tidegate` is there
    install_remote: Put this program there first, if it is not, or the one in FILE; it must run there, as a static one does,
        and goes into ~/.cache/tidegate
    """

    ssh: str
    via: Literal["auto", "direct", "reverse", "ssh"]
    port_range: str
    advertise: str
    remote_path: str
    install_remote: str | PathLike[str]


class _BucketOptions(TypedDict, total=False):
    """Shared by copy, get, put.

    s3_endpoint: The S3 server, such as http://127.0.0.1:9000 (default: $AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, the
        profile's, or AWS)
    s3_region: The region of S3 (default: $AWS_REGION, the profile's, or us-east-1)
    s3_style: Where the bucket stands in URLs (default: in the host's name for AWS, in the path for others)
    s3_anonymous: Send requests unsigned, whatever keys there are
    requester_pays: Agree to pay for requests to buckets of S3 whose owners charge for them; never agreed to otherwise
    """

    s3_endpoint: str
    s3_region: str
    s3_style: Literal["path", "virtual"]
    s3_anonymous: bool
    requester_pays: bool


class CopyOptions(_SelectionOptions, _RuleOptions, _ChannelOptions, _TrustOptions, _SshOptions, _BucketOptions, total=False):
    """Options of `tidegate copy`.

    checksum: Read files that are there already on both sides and compare, instead of trusting size, time and the recorded
        hash
    links: What to do about symbolic links (default: keep)
    delete: Once everything is there and verified, remove what the source does not have, in the directories that were
        copied; what rules exclude stays
    delete_excluded: The same, and what rules exclude goes as well, unless they protect it
    max_delete: Remove no more than N files and directories, which also allows to empty the destination or to remove over
        half
    move: Remove each file at the source once its copy is durable and both were hashed and are the same
    stall_timeout: How long a data stream may deliver nothing before it is replaced, and everything stand still before that
        is said (default: 30s)
    backup_dir: Move files to DIR with their paths in place of removing them, and keep there what is replaced; relative to
        DST, on the same file system
    epochs: Write each epoch as one JSON line to FILE
    policy: The policy that `--optimizer policy` decides by: its most likely action, or with policy:sampled one drawn, or
        with policy:online drawn and learned from; `tidegate train` makes it
    save_policy: Where what policy:online has learned is kept when the run ends, as a policy to go on from; it may be the
        file it began with
    max_workers: Most workers a stage (default: 32)
    start: Workers a stage to begin with (default: the rule's own, for auto no more than processors, but 4 streams where a
        round trip takes 20 ms or more, and 8 connections to a server)
    bounds: Read the most network streams, no more than max_workers, from FILE anew each epoch, so that whoever writes it
        can share a path among transfers
    retry_for: How long a connection that was lost is made again, since the transfer last got on; one that was never made is
        given up after 30s at most (default: 1h)
    no_memory: Begin as if nothing had ever been moved over this path, and remember nothing of it; otherwise the rule auto
        begins where the last run over it ended (`tidegate history show`)
    header: A header line for each request to a WebDAV server as DST, such as 'Authorization: Bearer …'
    ca: Certificates (PEM) to trust besides the system's
    gs_endpoint: The server of gs:// (default: $STORAGE_EMULATOR_HOST, or `https://storage.googleapis.com`)
    billing_project: A project of yours that pays for requests to buckets of Google's whose owners charge for them; none
        otherwise
    """

    checksum: bool
    links: Literal["keep", "skip", "follow"]
    delete: bool
    delete_excluded: bool
    max_delete: int
    move: bool
    stall_timeout: str | timedelta | Seconds
    backup_dir: str | PathLike[str]
    epochs: str | PathLike[str]
    policy: str | PathLike[str]
    save_policy: str | PathLike[str]
    max_workers: int
    start: int
    bounds: str | PathLike[str]
    retry_for: str | timedelta | Seconds
    no_memory: bool
    header: str | Iterable[str]
    ca: str | PathLike[str]
    gs_endpoint: str
    billing_project: str


class VerifyOptions(_SelectionOptions, _RuleOptions, _ChannelOptions, _TrustOptions, _SshOptions, total=False):
    """Options of `tidegate verify`.

    links: What to do about symbolic links (default: keep)
    policy: The policy that `--optimizer policy` decides by: its most likely action, or with policy:sampled one drawn, or
        with policy:online drawn and learned from; `tidegate train` makes it
    save_policy: Where what policy:online has learned is kept when the run ends, as a policy to go on from; it may be the
        file it began with
    max_workers: Most workers a stage (default: 32)
    start: Workers a stage to begin with (default: the rule's own, for auto no more than processors, but 4 streams where a
        round trip takes 20 ms or more, and 8 connections to a server)
    bounds: Read the most network streams, no more than max_workers, from FILE anew each epoch, so that whoever writes it
        can share a path among transfers
    retry_for: How long a connection that was lost is made again, since the transfer last got on; one that was never made is
        given up after 30s at most (default: 1h)
    """

    links: Literal["keep", "skip", "follow"]
    policy: str | PathLike[str]
    save_policy: str | PathLike[str]
    max_workers: int
    start: int
    bounds: str | PathLike[str]
    retry_for: str | timedelta | Seconds


class GetOptions(_RuleOptions, _BucketOptions, total=False):
    """Options of `tidegate get`.

    overwrite: Replace files of the same names that no earlier run has written, or that were changed since
    format: What files: fastq, sra, sralite or submitted; nothing else is taken in its place unasked (default: fastq)
    allow_fallback: Take another format where the wished one is missing, and say so
    source: Who gives them: auto (ENA, then the open data on AWS, then NCBI), ena, ncbi or aws (default: auto)
    protocol: How ENA's files are fetched: https or ftp (default: https)
    layout: Where they go: flat, or a directory for each run or experiment (default: flat)
    name: What they are called: as the archive does (archive), or with the experiment in front (fetchngs) (default: archive)
    fields: Columns of ENA's to ask for, separated by commas, or 'all'
    samplesheet: The pipeline that samplesheet.csv is for: rnaseq, atacseq, viralrecon, taxprofiler or generic (default:
        generic)
    limit_rate: Rate of all connections together, such as 80Mbit/s
    limit_network: Rate of each connection
    limit_write: Rate of each writer
    timeout: How long a server may be silent (default: 60s)
    no_verify: Do not hold files against the checksums that are known of them
    checksum: Compute these checksums as well: crc32, crc32c, crc64nvme, md5, sha1, sha256, sha512, blake3; or hold the one
        URL against a sum, as sha256:HEX
    staging: Memory for blocks between network and disk (default: 16MiB)
    chunk_size: Bytes of a large file given to one connection at a time (default: 64MiB)
    chunking: Whether large files are fetched in parallel pieces (default: on)
    pipelining: Whether a connection serves request after request, or one each: with chunking off a file (default: on)
    recursive: Get all that lies beneath each NAME, a directory that a server lists: https://host/dir/, ftp://host/dir/,
        sftp://host/dir/
    refresh_url_with: Get a fresh link by COMMAND when a server refuses one (401, 403, or 400 as expired): it is run with
        the URL as its last argument and prints another; taken from the command line only
    convert: Convert SRA archives as they arrive; needs fasterq-dump of NCBI's SRA toolkit
    epochs: Write each epoch as one JSON line to FILE
    fixed: Use N connections and let no rule change that
    api_key: NCBI's API key, which allows more requests a second
    email: An address that NCBI may write to about your requests
    ena_url: Base URL of ENA's Portal API
    eutils_url: Base URL of NCBI's E-utilities
    sdl_url: URL of NCBI's locator of data
    aws_url: Base URL of the open-data mirror of SRA
    input_format: What lists are, instead of finding out: urls, sums, tsv, csv, json, bagit or metalink
    base_url: Where the files of a checksum file lie, and what relative addresses of a table are relative to
    no_sidecars: Write no runs.tsv, md5sums.txt, samplesheet.csv or failed.txt
    max_connections: Most connections to a host, or HOST=N (*.HOST=N for all beneath it) for one (default: 8 to ENA, 64 to
        S3, 32 to others, and max_workers in all)
    retries: How often a file is tried again without any progress although its server answers; with 0 nothing is tried again
        (default: 8)
    retry_for: How long a server that does not answer is tried again; one that never answered is given up after 30s at most
        (default: 1h)
    ca: Certificates (PEM) to trust besides the system's
    allow_downgrade: Follow redirects from https to http
    allow_pages: Take a web page for a file that is not called .html
    ftp_active: Let FTP servers connect to us
    ssh: The command that is run for ssh, with its options, as in 'ssh -p 2222' (default: ssh)
    gs_endpoint: The server of gs:// (default: $STORAGE_EMULATOR_HOST, or `https://storage.googleapis.com`)
    billing_project: A project of yours that pays for requests to buckets of Google's whose owners charge for them; none
        otherwise
    policy: The policy that `--optimizer policy` decides by: its most likely action, or with policy:sampled one drawn, or
        with policy:online drawn and learned from; `tidegate train` makes it
    save_policy: Where what policy:online has learned is kept when the run ends, as a policy to go on from; it may be the
        file it began with
    max_workers: Most workers a stage (default: 32)
    start: Workers a stage to begin with (default: the rule's own, for auto no more than processors, but 4 streams where a
        round trip takes 20 ms or more, and 8 connections to a server)
    bounds: Read the most network streams, no more than max_workers, from FILE anew each epoch, so that whoever writes it
        can share a path among transfers
    no_memory: Begin as if nothing had ever been moved over this path, and remember nothing of it; otherwise the rule auto
        begins where the last run over it ended (`tidegate history show`)
    state: Directory for keys, records of what was verified, and run logs (default: $XDG_STATE_HOME/tidegate, or
        ~/.local/state/tidegate; if neither can be written, a temporary one)
    """

    overwrite: bool
    format: str
    allow_fallback: bool
    source: str
    protocol: str
    layout: str
    name: str
    fields: str | Iterable[str]
    samplesheet: str
    limit_rate: str | BitsPerSecond
    limit_network: str | BitsPerSecond
    limit_write: str | BitsPerSecond
    timeout: str | timedelta | Seconds
    no_verify: bool
    checksum: str | Iterable[str]
    staging: str | Bytes
    chunk_size: str | Bytes
    chunking: Literal["on", "off"]
    pipelining: Literal["on", "off"]
    recursive: bool
    refresh_url_with: str
    convert: Literal["fastq"]
    epochs: str | PathLike[str]
    fixed: int
    api_key: str
    email: str
    ena_url: str
    eutils_url: str
    sdl_url: str
    aws_url: str
    input_format: str
    base_url: str
    no_sidecars: bool
    max_connections: int | str | Iterable[int | str]
    retries: int
    retry_for: str | timedelta | Seconds
    ca: str | PathLike[str]
    allow_downgrade: bool
    allow_pages: bool
    ftp_active: bool
    ssh: str
    gs_endpoint: str
    billing_project: str
    policy: str | PathLike[str]
    save_policy: str | PathLike[str]
    max_workers: int
    start: int
    bounds: str | PathLike[str]
    no_memory: bool
    state: str | PathLike[str]


class PutOptions(_SelectionOptions, _RuleOptions, _TrustOptions, _SshOptions, _BucketOptions, total=False):
    """Options of `tidegate put`.

    checksum: Read files that are there already and compare, instead of trusting size, time and what was recorded
    links: What to do about symbolic links; they cannot be kept as such (default: follow)
    delete: Once everything is there and verified, remove what the source does not have, in the directories that were
        copied; what rules exclude stays
    delete_excluded: The same, and what rules exclude goes as well, unless they protect it
    max_delete: Remove no more than N files and directories, which also allows to empty the destination or to remove over
        half
    move: Remove each file at the source once its copy is durable and both were hashed and are the same
    part_size: Bytes of each part of a large file; larger where a file would have more than 10,000 (default: 8MiB)
    staging: Memory for parts, from reading to confirmation (default: 256MiB)
    timeout: How long a server may be silent (default: 60s)
    limit_read: Rate of each reader, such as 80Mbit/s
    limit_network: Rate of each connection
    limit_rate: Rate of all connections together
    epochs: Write each epoch as one JSON line to FILE
    policy: The policy that `--optimizer policy` decides by: its most likely action, or with policy:sampled one drawn, or
        with policy:online drawn and learned from; `tidegate train` makes it
    save_policy: Where what policy:online has learned is kept when the run ends, as a policy to go on from; it may be the
        file it began with
    max_workers: Most workers a stage (default: 32)
    start: Workers a stage to begin with (default: the rule's own, for auto no more than processors, but 4 streams where a
        round trip takes 20 ms or more, and 8 connections to a server)
    bounds: Read the most network streams, no more than max_workers, from FILE anew each epoch, so that whoever writes it
        can share a path among transfers
    no_memory: Begin as if nothing had ever been moved over this path, and remember nothing of it; otherwise the rule auto
        begins where the last run over it ended (`tidegate history show`)
    gs_endpoint: The server of gs:// (default: $STORAGE_EMULATOR_HOST, or `https://storage.googleapis.com`)
    billing_project: A project of yours that pays for requests to buckets of Google's whose owners charge for them; none
        otherwise
    header: A header line for each request to a WebDAV server, such as 'Authorization: Bearer …'
    no_read_back: Compare sizes only, instead of reading files back from a WebDAV or SFTP server
    ca: Certificates (PEM) to trust besides the system's
    retries: How often a request to the destination is tried again (default: 8)
    retry_for: How long a server or an endpoint that does not answer, or is busy, is waited for (default: 1h)
    """

    checksum: bool
    links: Literal["skip", "follow"]
    delete: bool
    delete_excluded: bool
    max_delete: int
    move: bool
    part_size: str | Bytes
    staging: str | Bytes
    timeout: str | timedelta | Seconds
    limit_read: str | BitsPerSecond
    limit_network: str | BitsPerSecond
    limit_rate: str | BitsPerSecond
    epochs: str | PathLike[str]
    policy: str | PathLike[str]
    save_policy: str | PathLike[str]
    max_workers: int
    start: int
    bounds: str | PathLike[str]
    no_memory: bool
    gs_endpoint: str
    billing_project: str
    header: str | Iterable[str]
    no_read_back: bool
    ca: str | PathLike[str]
    retries: int
    retry_for: str | timedelta | Seconds


class EstimateOptions(_TrustOptions, total=False):
    """Options of `tidegate estimate`.

    bytes: How much there is (default: the size of SRC, if that is a file of this host)
    sampler: What measures: native (between endpoints of ours), iperf3, gridftp or ranges (of the files that a server has)
        (default: by the addresses)
    iperf3: An iperf3 server that runs at the other site (default: an endpoint with iperf3 is asked to run one, and of two
        endpoints the source is asked to measure to the other)
    sample_time: How long each sample is, once its streams are up to speed (default: 400ms to 1s, by the size)
    sample_size: How much each sample is, instead
    threshold: What one more stream must add: a share of what the first one carries (as 0.1 or 10%), or a rate (default:
        10%)
    model: Which models of throughput tell what more streams would bring: averaged (ours, all of them), published (EOS, the
        nearer of its two), full_second_order, dynamic_order, dinda or hacker (that one, as published) (default: averaged)
    always_sample: Sample even where that costs more than it can bring
    tcp_buffer: The buffer of each connection, for iperf3 and gridftp
    use_history: Take the answer from history, if it is not older than AGE (default: 1d)
    max_streams: Most streams (default: 32)
    data_plane: How the bulk will travel (default: tls)
    verify: How content will be verified (default: blake3)
    limit_network: Rate of each network stream
    limit_link: Rate of all streams together
    database: Where history is kept: sqlite:PATH or postgres://… (default: history.db in the state directory)
    server: Ask the running service at URL, which measures from its host and remembers; paths are paths of that host
    server_ca: The certificate authority of its certificate, PEM (default: the system's)
    """

    bytes: str | Bytes
    sampler: str
    iperf3: str
    sample_time: str | timedelta | Seconds
    sample_size: str | Bytes
    threshold: str
    model: str
    always_sample: bool
    tcp_buffer: str | Bytes
    use_history: str | timedelta | Seconds
    max_streams: int
    data_plane: Literal["tls", "clear"]
    verify: Literal["blake3", "block"]
    limit_network: str | BitsPerSecond
    limit_link: str | BitsPerSecond
    database: str
    server: str
    server_ca: str | PathLike[str]


class LsOptions(_TrustOptions, _SshOptions, total=False):
    """Options of `tidegate ls`.

    recursive: List what lies in directories, too
    """

    recursive: bool


class EndpointOptions(_TrustOptions, total=False):
    """Options of `tidegate endpoint`.

    once: Be the other end of `tidegate copy … user@host:…`: serve whoever runs ssh, as they say on standard input, until
        that ends
    follow: A directory outside of it that links in it may lead to, where a peer names them; may be given again. Whoever may
        write here can make links, so all of it is open to every ticket
    advertise: The host name or address to print in the ticket, and the port if others reach it by another one; an IPv6
        number stands in brackets (default: what is listened on)
    read_only: Let data be fetched but not put
    allow_delete: Let the ticket that is printed, and whomever a PKI lets in, remove what is there, as `copy --delete` and
        `--move` do; `tidegate ticket --delete` makes single tickets that may
    data_plane: Whether peers may ask for data streams that are not encrypted (default: tls)
    iperf3: Run an `iperf3 -s` for one test of whoever holds a ticket and asks, so that `tidegate estimate --sampler iperf3`
        can measure the path to here, and iperf3 against another such endpoint for whoever asks for that; 0 is any free port
        [default ports: 5201-5204]
    allow_local_targets: Send to loopback and link-local addresses too when a peer asks for a copy from here to another
        endpoint
    sessions: Most sessions of one ticket at a time; of all tickets together there are half as many again (default: 32)
    threads: Most threads that work for one ticket at a time, beyond the few of each session; likewise (default: 160)
    memory: Most memory that one ticket takes, half of it for staging; likewise (default: 192MiB)
    https: Serve the same directory over HTTPS, to browsers, curl and whatever reads by HTTP, with a token of `tidegate
        ticket --http` or a link of `tidegate share`
    https_cert: The certificate chain for that, PEM; one that browsers trust
    https_key: Its private key, PEM
    http: Serve it without TLS, on a loopback address alone: for a proxy in front that encrypts, or for programs of this
        host
    allow_unverified_put: Take files by HTTP that nothing vouches for: neither Content-MD5, Repr-Digest, x-amz-checksum-…
        nor a signature over the content
    http_url: The URL that others reach it by, for links, as in https://data.example.org (default: the host of advertise)
    status: Answer /healthz and /metrics (Prometheus) without a token: on the loopback, where a port alone is given
        (default: nowhere)
    """

    once: bool
    follow: str | PathLike[str] | Iterable[str | PathLike[str]]
    advertise: str
    read_only: bool
    allow_delete: bool
    data_plane: Literal["tls", "clear"]
    iperf3: str
    allow_local_targets: bool
    sessions: int
    threads: int
    memory: str | Bytes
    https: str
    https_cert: str | PathLike[str]
    https_key: str | PathLike[str]
    http: str
    allow_unverified_put: bool
    http_url: str
    status: str


# What the options of each are made of, which types do not tell when they are there.
PARTS: dict[str, tuple[type, ...]] = {
    "copy": (_SelectionOptions, _RuleOptions, _ChannelOptions, _TrustOptions, _SshOptions, _BucketOptions, CopyOptions,),
    "verify": (_SelectionOptions, _RuleOptions, _ChannelOptions, _TrustOptions, _SshOptions, VerifyOptions,),
    "get": (_RuleOptions, _BucketOptions, GetOptions,),
    "put": (_SelectionOptions, _RuleOptions, _TrustOptions, _SshOptions, _BucketOptions, PutOptions,),
    "estimate": (_TrustOptions, EstimateOptions,),
    "ls": (_TrustOptions, _SshOptions, LsOptions,),
    "endpoint": (_TrustOptions, EndpointOptions,),
}
