"""vllm-gateway without a command: reads its settings, opens what it needs, and serves."""

import argparse
import logging
import secrets
import sys
from collections.abc import Sequence

from fleet import secret_file
from fleet.backend import Kind
from fleet.family import registry
from fleet.flags import flags
from fleet.gateway import GatewaySettings
from fleet.listen import Listen
from fleet.secret_file import SecretError
from fleet.settings import Settings, SettingsError, load
from gateway import cors, seal_key
from gateway.admin import Admin
from gateway.collector import GatewayCollector
from gateway.desk import Desk
from gateway.finished import GOOD_FOR_SECONDS, Finished
from gateway.kept import Kept
from gateway.keys import Keys, KeysError
from gateway.ledger.database import StorageError, SyncedDatabase
from gateway.ledger.ledger import Ledger
from gateway.office import Office
from gateway.questions import Questions
from gateway.seal import KEY_BYTES, Seal
from gateway.seal_key import SealKeyError
from gateway.serve import run, serve
from gateway.shelf import Shelf
from gateway.standing import Standing
from gateway.turn import Turn
from gateway.upstream import Upstreams

CANNOT_LISTEN = 1
BAD_SETTINGS = 2
PORT = 8080
DESCRIPTION = "Relays OpenAI requests to vLLM servers: no stream is cut, no token billed twice."
DRAIN_LEDGER_SECONDS = 5.0

log = logging.getLogger("gateway")


def main(argv: Sequence[str], *, commands: Sequence[str]) -> int:
    """Serve until SIGTERM. Returns 0, 1 if it cannot listen, 2 if the settings are bad."""
    args = _parser(commands).parse_args(argv)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="time=%(asctime)s level=%(levelname)s %(message)s",
    )
    try:
        settings = load(args.config_file)
        ours = _ours(settings)
        keys = Keys(ours.keys_file)
        seal = Seal(_seal_keys(ours), ours.resume_for)
        if args.config_check:
            print(f"{args.config_file}: {len(settings.backends)} backends, valid")
            return 0
        shared = SyncedDatabase(ours.database)
        kept = Kept(shared, seal)
        questions = Questions(shared, seal, ours.resume_for, ours.questions_per_caller)
        ledger = Ledger(
            ours.database,
            ours.journal_folder,
            takeover_after=ours.takeover_after,
            keep=kept.adopt,
        )
    except (SettingsError, KeysError, SealKeyError) as error:
        print(error, file=sys.stderr)
        return BAD_SETTINGS
    except StorageError as error:
        print(f"{args.config_file}: gateway.database: {error}", file=sys.stderr)
        return BAD_SETTINGS
    return _serve(settings, ours, args.listen, _Parts(keys, seal, ledger, kept, questions))


class _Parts:
    """What is opened before anything is served."""

    def __init__(
        self, keys: Keys, seal: Seal, ledger: Ledger, kept: Kept, questions: Questions
    ) -> None:
        self.keys = keys
        self.seal = seal
        self.ledger = ledger
        self.kept = kept
        self.questions = questions


def _parser(commands: Sequence[str]) -> argparse.ArgumentParser:
    parser = flags("vllm-gateway", DESCRIPTION, port=PORT)
    parser.epilog = f"Commands: {', '.join(commands)}; see `vllm-gateway COMMAND --help`."
    return parser


def _ours(settings: Settings) -> GatewaySettings:
    if settings.gateway is None:
        raise SettingsError((f"{settings.file}: gateway: is required by vllm-gateway",))
    try:
        secret_file.token(settings.gateway.admin_token_file)
    except SecretError as error:
        raise SettingsError((f"{settings.file}: gateway.admin_token_file: {error}",)) from None
    for i, origin in enumerate(settings.gateway.cors_origins):
        wrong = cors.mistake(origin)
        if wrong:
            place = f"{settings.file}: gateway.cors_origins[{i}]"
            raise SettingsError((f"{place}: {origin!r} {wrong}",))
    return settings.gateway


def _seal_keys(ours: GatewaySettings) -> Sequence[bytes]:
    if ours.resume_key_file is None:
        return (secrets.token_bytes(KEY_BYTES),)
    return seal_key.read(ours.resume_key_file)


def _serve(settings: Settings, ours: GatewaySettings, listen: Listen, parts: _Parts) -> int:
    try:
        sock = listen.bound()
    except OSError as error:
        print(f"--web.listen-address: {listen}: {error.strerror}", file=sys.stderr)
        return CANNOT_LISTEN
    sock.setblocking(False)  # noqa: FBT003 -- its name
    turn = Turn()
    office = Office(
        settings=ours,
        standings=tuple(Standing(b) for b in settings.backends if b.kind is Kind.VLLM),
        upstreams=Upstreams(ours.connect_timeout, turn),
        turn=turn,
        bill=parts.ledger,
        seal=parts.seal,
        shelf=Shelf(parts.kept),
        questions=parts.questions,
        finished=Finished(min(GOOD_FOR_SECONDS, ours.resume_for)),
    )
    own = registry(GatewayCollector(office, lambda: parts.ledger.lag_seconds))
    desk = Desk(office, parts.keys, Admin(office, ours.admin_token_file), own)
    ended = parts.ledger.start()
    if ended:
        log.warning("event=bills_closed requests=%d", ended)
    log.info("event=started listen=%s backends=%d", listen, len(office.standings))
    run(serve(office, desk, sock))
    if not parts.ledger.drain(DRAIN_LEDGER_SECONDS):
        log.warning("event=ledger_not_drained")
    parts.ledger.shut()
    log.info("event=stopped")
    return 0
