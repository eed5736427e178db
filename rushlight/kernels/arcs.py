"""asin, acos, atan and atan2 as straight-line IR, in float32 and float64; `vecmath.py` says how such functions are made, and calls them."""

from .ir import Value

INF = float("inf")
HALF_PI, HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
HALF_PI_FLOAT, HALF_PI_FLOAT_LOW = 1.5707963705062866, -4.3711390001862426e-08
# atan(x) / x - 1, over x^2, in x^2: float32 up to 1, float64 up to tan(pi / 8)
ATAN_FLOAT = (0.001488691894337535, -0.00914462935179472, 0.026305001229047775, -0.04896051436662674, 0.07031914591789246,
              -0.08931826800107956, 0.11088261753320694, -0.14284004271030426, 0.19999949634075165, -0.3333333432674408)
ATAN = (0.01627194475162406, -0.034558092551413795, 0.04551108126325172, -0.052303478730160745, 0.058789145444006215,
        -0.06666423628069258, 0.0769229630497447, -0.09090908751076636, 0.11111111105106705, -0.14285714285659326,
        0.199999999999998, -0.3333333333333333)
ASIN_FLOAT = (0.03369084745645523, 0.017149237915873528, 0.031100662425160408, 0.04459940269589424, 0.07500094175338745, 0.1666666567325592)
ASIN = (0.02877844261259304, -0.014881409392818063, 0.017419357964884856, 0.005450878187720551, 0.010324318288744113,
        0.011478952690257387, 0.013971235301124539, 0.017352391265909227, 0.022372173002005596, 0.030381944137085216,
        0.04464285714637338, 0.07499999999998425, 0.16666666666666669)


def half_pi(kind: str) -> tuple[float, float]:
    return (HALF_PI_FLOAT, HALF_PI_FLOAT_LOW) if kind == "float" else (HALF_PI, HALF_PI_LOW)


def atan_positive(size: Value) -> Value:
    if size.type.element == "float":
        outside = size > 1.0
        w = outside.select(1.0 / size, size)
        z = w * w
        part = (z * z.polynomial(*ATAN_FLOAT)).fma(w, w)
        return outside.select((HALF_PI_FLOAT - part) + HALF_PI_FLOAT_LOW, part)
    big, middle = size > 2.414213562373095, size > 0.41421356237309503
    numerator = big.select(size.constant(-1.0), middle.select(size - 1.0, size))
    denominator = big.select(size, middle.select(size + 1.0, 1.0))
    w = numerator / denominator
    base = big.select(size.constant(HALF_PI), middle.select(size.constant(HALF_PI / 2), 0.0))
    low = big.select(size.constant(HALF_PI_LOW), middle.select(size.constant(HALF_PI_LOW / 2), 0.0))
    z = w * w
    return base + ((z * z.polynomial(*ATAN)).fma(w, w) + low)


def atan(x: Value) -> Value:
    return atan_positive(abs(x)).copysign(x)


def atan2(y: Value, x: Value) -> Value:
    quarter, low = half_pi(x.type.element)
    a, b = abs(y), abs(x)
    swap = a > b
    quotient = swap.select(b, a) / swap.select(a, b)
    # 0/0 and inf/inf are the corners that atan2 defines.
    quotient = (a.equal(b) & a.equal(INF)).select(x.constant(1.0), quotient)
    quotient = (a.equal(0.0) & b.equal(0.0)).select(x.constant(0.0), quotient)
    angle = atan_positive(quotient)
    angle = swap.select(quarter - angle + low, angle)
    minus = x.bitcast(x.type.integer.element) < 0
    angle = minus.select(2 * quarter - angle + 2 * low, angle)
    return (x.is_nan() | y.is_nan()).select(x + y, angle.copysign(y))


def asin_parts(x: Value) -> tuple[Value, Value, Value]:
    """(|x| < 1/2, s, asin(s) - s), where s is x there and the root of (1 - |x|) / 2 elsewhere."""
    size = abs(x)
    small = size < 0.5
    z = small.select(size * size, (1.0 - size) * 0.5)
    root = z.sqrt()
    s = small.select(x, root)
    rest = s * (z * z.polynomial(*(ASIN_FLOAT if x.type.element == "float" else ASIN)))
    # What rounding the root lost.
    lost = (-root).fma(root, z) / (root + root)
    return small, s, rest + (small | root.equal(0.0)).select(x.constant(0.0), lost)


def asin(x: Value) -> Value:
    quarter, low = half_pi(x.type.element)
    small, s, rest = asin_parts(x)
    return small.select(s + rest, (quarter - (s + s)) - ((rest + rest) - low)).copysign(x)


def acos(x: Value) -> Value:
    quarter, low = half_pi(x.type.element)
    small, s, rest = asin_parts(x)
    outer = (x < 0.0).select((2 * quarter - (s + s)) - ((rest + rest) - 2 * low), (s + s) + (rest + rest))
    return small.select((quarter - s) - (rest - low), outer)
