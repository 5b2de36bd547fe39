# make demo        the incident and its answer, on a simulated fleet (KEEP=1 leaves it up)
# make test        unit tests, rule tests, the running gateway, and the whole path on real Prometheus and Alertmanager
#                  (the wheel's are in check; WORKERS=1: one test after the other)
# make check       style, types, rules, routes, purity, and the built wheel in an environment of its own
# make test-vllm   the whole path, and the gateway, on a real vLLM (CPU build, a tiny model made in place)
# make vllm        the environment that this vLLM runs in, made once, in minutes
# make bench-tournament   ours against eight other ways to find a hung server (SIZE=small: a minute;
#                  VLLM=1: at a real vLLM, too, ten minutes more)
# make bench-exporter     what a look costs: us, Prometheus itself, a real vLLM (VLLM=0 leaves that out)
# make bench-webhook      how soon a notification is acknowledged while a thousand others wait
# make bench-crash        the remediator killed at every step, 200 times and more: nothing is done twice
#                  or lost (DATABASE=postgresql: two of them on a real PostgreSQL)
# make bench-gateway      what a relay costs: ours, nginx, vllm-router, LiteLLM and others, side by side
#                  (STREAMS=100, RATE, WINDOW and PEERS=nginx,ours can be set)
# make bench-rollout      what a roll-out does to open streams: behind nginx, vllm-router, ours
#                  (STREAMS, SCALE=1 and WAYS=nginx,ours can be set)
# make bench       all of them
# make lock        the lock files, anew from pyproject.toml

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check test-vllm vllm bench bench-tournament bench-exporter bench-webhook bench-crash bench-gateway bench-rollout lock format clean

demo: $(READY)
	@$(BIN)/python -m demo $(if $(KEEP),--keep)

# Most of them wait, for seconds that real programs count: more side by side than there are cores.
WORKERS ?= 3
test: $(READY) parts browser engines
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --ignore=tests/real --ignore=tests/test_wheel.py

check: $(READY) parts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	promtool check rules rules/recording.yml rules/alerts.yml rules/direct.yml
	promtool check config --syntax-only rules/prometheus.yml
	amtool check-config rules/alertmanager.yml
	$(BIN)/python -m pytest -q tests/test_purity.py tests/test_wheel.py

test-vllm: $(READY) parts
	$(BIN)/python -m pytest -s tests/real

vllm: $(READY)
	$(BIN)/python -m tests.real.vllm_environment

bench: bench-tournament bench-exporter bench-webhook bench-crash bench-gateway bench-rollout

SIZE ?= full
bench-tournament: $(READY)
	@$(BIN)/python -m benchmarks.tournament --size $(SIZE) --details $(if $(VLLM),--vllm)

bench-exporter: $(READY) parts
	@$(BIN)/python -m benchmarks.exporter

bench-webhook: $(READY)
	@$(BIN)/python -m benchmarks.webhook

DATABASE ?= sqlite
bench-crash: $(READY)
	@$(BIN)/python -m benchmarks.crash --database $(DATABASE)

bench-gateway: $(READY)
	@$(BIN)/python -m benchmarks.gateway

bench-rollout: $(READY)
	@$(BIN)/python -m benchmarks.rollout

.PHONY: parts browser engines
parts: $(READY)
	@$(BIN)/python -m demo.parts

browser: $(READY)
	@$(BIN)/python -m demo.parts browser

engines: $(READY)
	@$(BIN)/python -m demo.parts podman
	@$(BIN)/python -m demo.parts systemd

$(READY): requirements-dev.lock pyproject.toml
	@./tools/environment $(PYTHON) $(VENV) requirements-dev.lock
	@touch $@

lock: $(READY)
	$(BIN)/uv pip compile pyproject.toml --extra docker --extra kubernetes --extra postgresql \
	  --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate --custom-compile-command 'make lock' -q --upgrade \
	  -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra dev -c requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --custom-compile-command 'make lock' -q --upgrade -o requirements-dev.lock

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
