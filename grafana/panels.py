"""The kinds of panel that the dashboards are made of, each in one house style."""

from collections.abc import Sequence

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    timeseries,
)
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueColorMode,
    BigValueGraphMode,
    GraphDrawStyle,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMapping,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
STAT_HEIGHT, LOW, HIGH = 4, 7, 9

Steps = Sequence[tuple[float | None, str]]
NONE_IS_GOOD: Steps = [(None, "green"), (1, "red")]
NONE_IS_BETTER: Steps = [(None, "green"), (1, "orange")]
ANY_IS_NEWS: Steps = [(None, "text"), (1, "blue")]
ALL_UP: Steps = [(None, "red"), (1, "green")]


def query(expr: str, legend: str, ref: str = "A") -> prometheus.Dataquery:
    """One range query with the legend of its series."""
    return (
        prometheus.Dataquery()
        .datasource(DATASOURCE)
        .expr(expr)
        .legend_format(legend)
        .range()
        .format(PromQueryFormat.TIME_SERIES)
        .ref_id(ref)
    )


def now(expr: str, legend: str, ref: str = "A") -> prometheus.Dataquery:
    """One query for the present moment only."""
    return (
        prometheus.Dataquery()
        .datasource(DATASOURCE)
        .expr(expr)
        .legend_format(legend)
        .instant()
        .format(PromQueryFormat.TIME_SERIES)
        .ref_id(ref)
    )


def thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    """Colours by value; the first step has no lower bound."""
    return (
        dashboard.ThresholdsConfig()
        .mode(ThresholdsMode.ABSOLUTE)
        .steps([Threshold(value=value, color=colour) for value, colour in steps])
    )


def number(  # noqa: PLR0913 -- one panel is that many things
    title: str,
    description: str,
    target: prometheus.Dataquery,
    *,
    unit: str,
    steps: Steps,
    width: int,
    nothing: str,
    mappings: Sequence[ValueMapping] = (),
) -> stat.Panel:
    """One big number on a coloured ground; ``nothing`` is said where there is no data."""
    return (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .with_target(target)
        .unit(unit)
        .no_value(nothing)
        .thresholds(thresholds(steps))
        .mappings(list(mappings))
        .color_scheme(dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .color_mode(BigValueColorMode.BACKGROUND)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .height(STAT_HEIGHT)
        .span(width)
    )


def switch(title: str, description: str, target: prometheus.Dataquery, nothing: str) -> stat.Panel:
    """On or off: whether all of them are well."""
    return number(
        title,
        description,
        target,
        unit="bool_on_off",
        steps=ALL_UP,
        width=4,
        nothing=nothing,
    )


def lines(
    title: str,
    description: str,
    *targets: prometheus.Dataquery,
    unit: str,
    width: int = 12,
    height: int = HIGH,
) -> timeseries.Panel:
    """Lines over time; gaps stay gaps, since a missing reading is news here."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .min(0)
        .draw_style(GraphDrawStyle.LINE)
        .line_width(1)
        .fill_opacity(5)
        .show_points(VisibilityMode.NEVER)
        .span_nulls(span_nulls=False)
        .legend(_legend(["lastNotNull", "max"]))
        .tooltip(_tooltip())
        .height(height)
        .span(width)
    )
    for target in targets:
        panel = panel.with_target(target)
    return panel


def bars(
    title: str,
    description: str,
    *targets: prometheus.Dataquery,
    unit: str,
    width: int = 12,
    height: int = HIGH,
) -> timeseries.Panel:
    """Events as stacked bars.

    At least a minute wide: ``$__rate_interval`` is then a bar and one scrape, so that each event is
    in one bar, and those between two scrapes are in none too few.
    """
    return (
        lines(title, description, *targets, unit=unit, width=width, height=height)
        .interval("1m")
        .draw_style(GraphDrawStyle.BARS)
        .fill_opacity(80)
        .stacking(common.StackingConfig().mode(StackingMode.NORMAL))
        .decimals(0)
        .legend(_legend(["sum"]))
    )


def timeline(
    title: str,
    description: str,
    *targets: prometheus.Dataquery,
    mappings: Sequence[ValueMapping],
    height: int = HIGH,
    width: int = 24,
) -> statetimeline.Panel:
    """One row a series, coloured by what its value means."""
    panel = (
        statetimeline.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit("none")
        .mappings(list(mappings))
        .color_scheme(dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .thresholds(thresholds([(None, "text")]))
        .show_value(VisibilityMode.AUTO)
        .merge_values(merge_values=True)
        .row_height(0.85)
        .fill_opacity(85)
        .line_width(0)
        .legend(_legend([], table=False))
        .tooltip(_tooltip())
        .height(height)
        .span(width)
    )
    for target in targets:
        panel = panel.with_target(target)
    return panel


def ranking(  # noqa: PLR0913 -- one panel is that many things
    title: str,
    description: str,
    target: prometheus.Dataquery,
    *,
    unit: str,
    steps: Steps,
    width: int = 12,
) -> bargauge.Panel:
    """One bar a series, for the present moment."""
    return (
        bargauge.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .with_target(target)
        .unit(unit)
        .min(0)
        .thresholds(thresholds(steps))
        .color_scheme(dashboard.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .display_mode(BarGaugeDisplayMode.BASIC)
        .orientation(VizOrientation.HORIZONTAL)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .height(HIGH)
        .span(width)
    )


def dashed(colour: str) -> list[DynamicConfigValue]:
    """What makes a series a limit: a dashed line of one colour, nothing under it."""
    return [
        DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": colour}),
        DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 8]}),
        DynamicConfigValue(id_val="custom.fillOpacity", value=0),
    ]


def _legend(calcs: list[str], *, table: bool = True) -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.TABLE if table else LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(show_legend=True)
        .calcs(calcs)
    )


def _tooltip() -> common.VizTooltipOptions:
    return common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
