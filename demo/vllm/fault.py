"""What can be done to a simulated server from outside."""

from dataclasses import dataclass

from demo.vllm.field import JsonObject, integer, json_object, number
from demo.vllm.request import Request
from demo.vllm.tokens import BYTES

ENGINE = "engine"


@dataclass(frozen=True)
class Freeze:
    """No step until thawed. ``engine`` None: all of them."""

    engine: int | None


@dataclass(frozen=True)
class Thaw:
    """Go on where it stood."""

    engine: int | None


@dataclass(frozen=True)
class Die:
    """The engine processes are killed; the API server follows."""


@dataclass(frozen=True)
class Slow:
    """Another pace."""

    steps_per_second: float
    engine: int | None


@dataclass(frozen=True)
class Load:
    """Requests that no connection waits for."""

    requests: int
    prompt_tokens: int
    max_tokens: int
    engine: int | None

    def request(self, number: int) -> Request:
        """The request with this number: prompts differ from the first token on, so none is cached.

        ``number`` counts all such requests of a server.
        """
        filler = (index % BYTES for index in range(self.prompt_tokens))
        prompt = (*number.to_bytes(8, "little"), *filler)[: self.prompt_tokens]
        return Request(id=f"sim-{number}", prompt=prompt, max_tokens=self.max_tokens)


@dataclass(frozen=True)
class Mute:
    """The API server's event loop is busy."""

    seconds: float


Fault = Freeze | Thaw | Die | Slow | Load | Mute

FIELDS = {
    "freeze": {ENGINE},
    "thaw": {ENGINE},
    "die": set[str](),
    "slow": {"steps_per_second", ENGINE},
    "prefill": {"tokens", ENGINE},
    "batch": {"requests", "max_tokens", "prompt_tokens", ENGINE},
    "mute": {"seconds"},
}


def fault(name: str, body: bytes, engines: int) -> Fault:
    """Read a fault; LookupError if there is none of this name, ValueError if its body is wrong."""
    if name not in FIELDS:
        raise LookupError(f"there is no fault {name!r}; there are {', '.join(FIELDS)}")
    fields = json_object(body or b"{}")
    for given in fields:
        if given not in FIELDS[name]:
            known = ", ".join(sorted(FIELDS[name])) or "no field"
            raise ValueError(f"{name} does not know the field {given!r}; it takes {known}")
    return _fault(name, fields, _engine(fields, engines))


def _fault(name: str, fields: JsonObject, engine: int | None) -> Fault:
    match name:
        case "freeze" | "thaw":
            return Freeze(engine) if name == "freeze" else Thaw(engine)
        case "die":
            return Die()
        case "slow":
            return Slow(number(fields, "steps_per_second", above=0), engine)
        case "prefill":
            return Load(1, integer(fields, "tokens", None, at_least=1), 1, engine)
        case "batch":
            return Load(
                requests=integer(fields, "requests", None, at_least=1),
                prompt_tokens=integer(fields, "prompt_tokens", 16, at_least=1),
                max_tokens=integer(fields, "max_tokens", None, at_least=1),
                engine=engine,
            )
        case _:
            return Mute(number(fields, "seconds", above=0))


def _engine(fields: JsonObject, engines: int) -> int | None:
    if fields.get(ENGINE) is None:
        return None
    engine = integer(fields, ENGINE, None, at_least=0)
    if engine >= engines:
        raise ValueError(f"engine must be below {engines}, got {engine}")
    return engine
