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
from gateway.keys import Keys, KeysError
from gateway.ledger.database import Database, StorageError
from gateway.ledger.segment import JournalError
from gateway.office import Office
from gateway.seal import KEY_BYTES, Seal
from gateway.seal_key import SealKeyError
from gateway.serve import run, serve
from gateway.shelf import Shelf
from gateway.standing import Standing
from gateway.stores import Stores
from gateway.turn import Turn
from gateway.upstream import Upstreams

CANNOT_LISTEN = 1
BAD_SETTINGS = 2
PORT = 8080
DESCRIPTION = "Relays OpenAI requests to vLLM servers: no stream is cut, no token billed twice."
DRAIN_LEDGER_SECONDS = 5.0

log = logging.getLogger("gateway")


def main(argv: Sequence[str], *, commands: Sequence[str]) -> int:
    """Serve until SIGTERM.

    Returns 0, 1 if it cannot listen, 2 if the settings are bad or what they name cannot be used.
    """
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
            Database.checked(ours.database)
            print(f"{args.config_file}: valid, backends: {len(settings.backends)}")
            return 0
        stores = Stores(ours, seal)
        return _serve(settings, ours, args.listen, keys, stores)
    except (SettingsError, KeysError, SealKeyError) as error:
        print(error, file=sys.stderr)
        return BAD_SETTINGS
    except StorageError as error:
        print(f"{args.config_file}: gateway.database: {error}", file=sys.stderr)
        return BAD_SETTINGS
    except JournalError as error:
        print(f"{args.config_file}: gateway.journal_folder: {error}", file=sys.stderr)
        return BAD_SETTINGS


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
    if all(backend.kind is not Kind.VLLM for backend in settings.backends):
        why = "none is of kind vllm, so nobody answers a request"
        raise SettingsError((f"{settings.file}: backends: {why}",))
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


def _serve(
    settings: Settings, ours: GatewaySettings, listen: Listen, keys: Keys, stores: Stores
) -> int:
    try:
        sock = listen.bound()
    except OSError as error:
        print(f"--web.listen-address: {listen}: {error.strerror}", file=sys.stderr)
        return CANNOT_LISTEN
    with sock:
        sock.setblocking(False)  # noqa: FBT003 -- its name
        office = _office(settings, ours, stores)
        own = registry(GatewayCollector(office, lambda: stores.ledger.lag_seconds))
        desk = Desk(office, keys, Admin(office, ours.admin_token_file), own)
        ended = stores.ledger.start()
        if ended:
            log.warning("event=bills_closed requests=%d", ended)
        log.info("event=started listen=%s backends=%d", listen, len(office.standings))
        run(serve(office, desk, sock))
    if not stores.ledger.drain(DRAIN_LEDGER_SECONDS):
        log.warning("event=ledger_not_drained")
    stores.ledger.shut()
    log.info("event=stopped")
    return 0


def _office(settings: Settings, ours: GatewaySettings, stores: Stores) -> Office:
    turn = Turn()
    return Office(
        settings=ours,
        standings=tuple(Standing(b) for b in settings.backends if b.kind is Kind.VLLM),
        upstreams=Upstreams(ours.connect_timeout, turn),
        turn=turn,
        bill=stores.ledger,
        seal=stores.seal,
        shelf=Shelf(stores.kept),
        questions=stores.questions,
        finished=Finished(min(GOOD_FOR_SECONDS, ours.resume_for)),
    )
