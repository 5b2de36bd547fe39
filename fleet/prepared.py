"""I/O: one statement that is executed again and again, each time a transaction of its own.

SQLAlchemy's way to execute it costs several times what the driver takes for the same. Here it says
once how the statement is written and how its values are given, and the driver does the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.engine.interfaces import DBAPICursor
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.sql.dml import UpdateBase


class Prepared:
    """Belongs to one thread; any may close it when that one has ended.

    Has a connection of its own that is no part of the engine's pool. One on which something failed
    is thrown away; the next time there is a new one, and at once where it had only been lost since.
    ``told`` makes what is raised out of what the driver raises.
    """

    def __init__(
        self,
        engine: Engine,
        statement: UpdateBase,
        told: Callable[[Exception], Exception],
        columns: Sequence[str] | None = None,
    ) -> None:
        """``statement`` has values of fixed number: no lists. ``columns``: those of an INSERT."""
        dialect = engine.dialect
        compiled = dialect.statement_compiler(dialect, statement, column_keys=columns)
        self._engine = engine
        self._told = told
        self._failures = (dialect.loaded_dbapi.Error, SQLAlchemyError)
        self._sql = str(compiled)
        self._fixed = compiled.params
        self._order = compiled.positiontup
        self._processors = [
            (name, processor)
            for name, bound in compiled.binds.items()
            if (processor := bound.type.dialect_impl(dialect).bind_processor(dialect))
        ]
        self._cursor: DBAPICursor | None = None

    def execute(self, values: Mapping[str, Any]) -> int:
        """Do it, and commit; returns how many rows it concerned.

        Where its answer was lost with the connection it is done twice.
        """
        given = {**self._fixed, **values}
        for name, processor in self._processors:
            given[name] = processor(given[name])
        kept = self._cursor
        try:
            cursor = kept or self._opened()
            if self._order is None:
                cursor.execute(self._sql, given)
            else:
                cursor.execute(self._sql, tuple([given[name] for name in self._order]))
        except self._failures as error:
            was_lost = kept is not None and self._is_lost(error, kept)
            self.close()
            if not was_lost:
                raise self._told(error) from error
        else:
            return cursor.rowcount
        return self.execute(values)

    def close(self) -> None:
        """Close its connection."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            with suppress(*self._failures):
                cursor.connection.close()

    def _is_lost(self, error: Any, cursor: DBAPICursor) -> bool:  # noqa: ANN401 -- the driver's own
        """Whether the server is gone that was there the last time; another one may be there."""
        connection: Any = cursor.connection
        return self._engine.dialect.is_disconnect(error, connection, cursor)

    def _opened(self) -> DBAPICursor:
        pooled = self._engine.raw_connection()
        connection: Any = pooled.dbapi_connection
        # A statement outside of a transaction is one by itself, in both kinds of database.
        self._engine.dialect.set_isolation_level(connection, "AUTOCOMMIT")
        pooled.detach()
        cursor: DBAPICursor = connection.cursor()
        self._cursor = cursor
        return cursor
