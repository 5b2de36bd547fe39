# One image for all programs; the command says which: vllm-exporter, vllm-remediator or vllm-gateway.
FROM python:3.12-slim AS build
WORKDIR /src
RUN python -m venv /opt/lifeguard
ENV PATH=/opt/lifeguard/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# What it depends on changes rarely: a layer of its own, and nothing that the lock file does not name.
COPY requirements.lock .
RUN pip install --require-hashes --no-deps -r requirements.lock
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheels . \
 && pip install --no-deps /wheels/*.whl \
 && pip check

FROM python:3.12-slim
# The folder exists so that a new volume on it belongs to the user.
RUN groupadd --gid 10001 lifeguard \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin lifeguard \
 && install -d -o lifeguard -g lifeguard /var/lib/vllm-lifeguard
COPY --from=build /opt/lifeguard /opt/lifeguard
ENV PATH=/opt/lifeguard/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /var/lib/vllm-lifeguard
EXPOSE 8080 9109 9110
# No health check: one that restarts a watchdog is a watchdog. The programs tell at /-/healthy and /-/ready.
CMD ["vllm-exporter", "--config.file=/etc/vllm-lifeguard/fleet.yml"]
