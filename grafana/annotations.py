"""Marks on the time axis, with what Prometheus' annotations need and the SDK's lack."""

from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import AnnotationQuery, DataSourceRef


class _Mark(AnnotationQuery):
    """An annotation with a step and a title."""

    title: str
    step: str

    def to_json(self) -> dict[str, object]:
        """As Grafana's Prometheus plugin writes it."""
        return {**super().to_json(), "titleFormat": self.title, "step": self.step}


class Annotation(Builder[AnnotationQuery]):
    """A mark wherever ``expr`` has a sample, asked once a minute.

    ``expr`` has to look back a minute and one scrape: of two samples, one on each side of a step,
    it would otherwise see no difference.
    """

    def __init__(
        self, name: str, expr: str, *, title: str, colour: str, datasource: DataSourceRef
    ) -> None:
        self._mark = _Mark(
            name=name, expr=expr, icon_color=colour, datasource=datasource, enable=True, hide=False
        )
        self._mark.title = title
        self._mark.step = "60s"

    def build(self) -> AnnotationQuery:
        """The finished annotation."""
        return self._mark
