"""A real nginx with the configuration that this project deploys."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from demo.child import free_ports
from demo.parts import nginx

CONF = Path(__file__).parents[2] / "deploy" / "nginx" / "gateway.conf"
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
START_SECONDS = 20.0


def written(folder: Path, port: int, gateways: dict[str, int]) -> Path:
    """The file with other ports, and with its temporary files in a folder."""
    text = CONF.read_text().replace("listen 80;", f"listen 127.0.0.1:{port};")
    for address, at in gateways.items():
        text = text.replace(f"{address}:8080", f"127.0.0.1:{at}")
    temporary = "".join(f"{each}_temp_path {folder}/{each};\n" for each in TEMPORARY)
    text = text.replace("http {\n", f"http {{\naccess_log off;\n{temporary}", 1)
    path = folder / "nginx.conf"
    path.write_text(f"pid {folder}/nginx.pid;\ndaemon off;\nerror_log stderr;\n{text}")
    return path


def command(folder: Path, path: Path) -> list[str]:
    return [nginx(), "-e", "stderr", "-p", str(folder), "-c", str(path)]


@contextmanager
def proxied(folder: Path, gateways: dict[str, int]) -> Iterator[str]:
    port = free_ports(1)[0]
    path = written(folder, port, gateways)
    with subprocess.Popen(command(folder, path), stderr=subprocess.DEVNULL) as started:
        url = f"http://127.0.0.1:{port}"
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                urlopen(f"{url}/metrics", timeout=5).close()
            except HTTPError as error:
                error.close()
                break
            except URLError:
                assert time.monotonic() < end, "nginx does not listen"
                time.sleep(0.05)
        yield url
        started.terminate()
        started.wait(20)
