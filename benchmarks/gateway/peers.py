"""The relays that are measured, each as a command that serves one port from another."""

import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from benchmarks.gateway.environment import program
from benchmarks.gateway.load import KEY
from demo.child import free_ports
from demo.parts import nginx

VLLM_ROUTER = "vllm-router==0.1.17"
# 1.107.0 is known to have been tampered with; this is the last one before it.
LITELLM = "litellm[proxy]==1.106.12"
NGINX = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  upstream servers {{ {servers} keepalive 64; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://servers;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
      {location}
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Command:
    """What to run, and the path that answers 200 once it is ready."""

    argv: Sequence[str]
    ready: str = "/v1/models"
    env: Mapping[str, str] = field(default_factory=dict)


# A folder of its own, the port to serve, the server's port. Raises NotInstallableError or
# PartMissingError, which say what is missing.
Peer = Callable[[Path, int, int], Command]


def nginx_(folder: Path, port: int, upstream: int) -> Command:
    """nginx, one worker, nothing buffered, connections kept."""
    return Command(nginx_command(folder, port, [upstream]))


def nginx_command(
    folder: Path, port: int, upstreams: Sequence[int], *, server: str = "", location: str = ""
) -> list[str]:
    """The command that serves one port from several.

    ``server``: parameters of each of them. ``location``: directives of the location.
    """
    servers = " ".join(f"server 127.0.0.1:{one} {server};" for one in upstreams)
    file = folder / "nginx.conf"
    file.write_text(NGINX.format(folder=folder, port=port, servers=servers, location=location))
    folder.chmod(0o755)
    return [nginx(), "-c", str(file), "-p", str(folder)]


def bare(folder: Path, port: int, upstream: int) -> Command:
    """The floor."""
    del folder
    return Command([sys.executable, "-m", "benchmarks.gateway.bare", str(port), str(upstream)])


def plain(folder: Path, port: int, upstream: int) -> Command:
    """A relay on aiohttp."""
    del folder
    return Command([sys.executable, "-m", "benchmarks.gateway.plain", str(port), str(upstream)])


def vllm_router(folder: Path, port: int, upstream: int) -> Command:
    """vllm-router, one worker."""
    del folder
    return Command(router_command(port, [upstream]))


def router_command(port: int, upstreams: Sequence[int], *more: str) -> list[str]:
    """The command that serves one port from several."""
    return [
        program("vllm-router", VLLM_ROUTER),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--worker-urls", *(f"http://127.0.0.1:{one}" for one in upstreams)),
        *("--policy", "round_robin", "--log-level", "error"),
        *("--prometheus-port", str(free_ports(1)[0])),
        *more,
    ]


def litellm(folder: Path, port: int, upstream: int) -> Command:
    """LiteLLM's proxy, one worker, without a database."""
    file = folder / "litellm.yml"
    server = {"model": "hosted_vllm/tiny", "api_base": f"http://127.0.0.1:{upstream}/v1"}
    settings = {
        "model_list": [{"model_name": "tiny", "litellm_params": server}],
        "litellm_settings": {"telemetry": False},
    }
    file.write_text(yaml.safe_dump(settings))
    argv = [
        program("litellm", LITELLM),
        *("--config", str(file), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"),
    ]
    # It does not start without a key; this one is what the clients send.
    env = {
        "LITELLM_MASTER_KEY": KEY,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
    }
    return Command(argv, "/health/liveliness", env)


def ours(folder: Path, port: int, upstream: int) -> Command:
    """vllm-gateway; its ledger and going on elsewhere are always on."""
    return Command(gateway_command(folder, port, {"gpu-1": upstream}), "/-/ready")


def gateway_command(
    folder: Path, port: int, upstreams: Mapping[str, int], **more: object
) -> list[str]:
    """The command that serves one port from several; ``more`` are settings of the gateway."""
    token = folder / "admin-token"
    if not token.exists():
        token.write_text(secrets.token_hex() + "\n")
    fleet = {
        "backends": [
            {"name": name, "url": f"http://127.0.0.1:{one}"} for name, one in upstreams.items()
        ],
        "gateway": {
            "admin_token_file": str(token),
            "database": f"sqlite:///{folder / 'gateway.db'}",
            "journal_folder": str(folder / "journal"),
            **more,
        },
    }
    file = folder / f"fleet-{port}.yml"
    file.write_text(yaml.safe_dump(fleet))
    listen = f"--web.listen-address=127.0.0.1:{port}"
    return [sys.executable, "-m", "gateway", f"--config.file={file}", listen]


PEERS: Mapping[str, Peer] = {
    "nginx": nginx_,
    "bare": bare,
    "vllm_router": vllm_router,
    "litellm": litellm,
    "aiohttp": plain,
    "ours": ours,
}
