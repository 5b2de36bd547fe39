"""Numbers as the text exposition format shows them."""

import math

# From here on Go, whose format it is, writes an exponent.
EXPONENT_DIGITS = 6


def exposed(value: float) -> str:
    """The number as Prometheus' client libraries write it, such as ``1.7960086e+09``."""
    if value == math.inf:
        return "+Inf"
    text = repr(float(value))
    whole, _, fraction = text.partition(".")
    if value > 0 and len(whole) > EXPONENT_DIGITS and "e" not in text:
        mantissa = f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0").rstrip(".")
        return f"{mantissa}e+{len(whole) - 1:02}"
    return text
