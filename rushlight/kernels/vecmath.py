"""Transcendental functions as straight-line IR over any number of lanes.

Each is a range reduction, a polynomial (fitted by Chebyshev interpolation with mpmath) and a reconstruction, within
2 ulp and right at infinities, NaN, signed zeros and denormals.  `call` is the one entry: it writes a function once per
module and type.  float32 functions without a form of their own run the float64 one and round once; float64 functions
without one call the C library lane by lane.  `accuracy.py` measures them.
"""

import numpy as np

from . import llvm
from .arcs import HALF_PI, HALF_PI_LOW, acos, asin, atan, atan2
from .ir import Function, Type, Value
from .lookup import looked_up, looks_up, tanh_by_pieces

LN2 = {"float": (0.6931471824645996, -1.9046542121259336e-09), "double": (0.6931471805599453, 2.3190468138462996e-17)}
# Every part is rounded down, so that all are positive: with x = -0 each step of the reduction then gives -0.
PI = {"float": (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14),
      "double": (3.141592653589793, 1.224646799147353e-16, 2.1657133478438278e-32)}
LOG2E = 1.4426950408889634
# Adding and taking away this number rounds to an integer and leaves that integer in the low bits.
MAGIC = {"float": 1.5 * 2.0**23, "double": 1.5 * 2.0**52}
MANTISSA, BIAS = {"float": 23, "double": 52}, {"float": 127, "double": 1023}
INF = float("inf")

EXPM1 = {"float": (0.000198910798644647, 0.0013933731243014336, 0.00833331048488617, 0.041666463017463684,
                   0.1666666716337204, 0.5),
         "double": (2.09147553258932e-09, 2.5105312729622103e-08, 2.755727347871858e-07, 2.755725517000089e-06,
                    2.480158732567746e-05, 0.0001984126987500228, 0.0013888888888883711, 0.008333333333326084,
                    0.04166666666666667, 0.1666666666666667, 0.5)}
# (exp(r) - 1 - r) / r^2, where the 1 is added last
EXP_FLOAT = (0.001381982583552599, 0.008368686772882938, 0.041668277233839035, 0.1666652113199234, 0.4999999403953552)
# (exp(r) - 1 - r) / r^2 for |r| <= ln2 / 32
EXP_SIXTEENTH = (0.16666992008686066, 0.5)
# 2**(i/16) as float32, and what that leaves
POWERS = [[float(np.float32(2.0 ** (i / 16))) for i in range(16)], [2.0 ** (i / 16) - float(np.float32(2.0 ** (i / 16))) for i in range(16)]]
# tanh(x) / x - 1, over x^2, in x^2
TANH = (-0.0062428489327430725, 0.02105071395635605, -0.0538475476205349, 0.13332544267177582, -0.33333316445350647)
LOG_FLOAT = (0.0697162076830864, -0.11479748785495758, 0.1168542355298996, -0.12425685673952103, 0.14249056577682495,
             -0.1666780263185501, 0.20000715553760529, -0.2499999701976776, 0.3333333134651184)
LOG_DOUBLE = (0.14630036854267117, 0.1533061685813288, 0.18182922527146983, 0.22222210674049558, 0.2857142862881216,
              0.3999999999989322, 0.666666666666667)
SIN = {"float": (-2.5502593814508145e-08, 2.7627049803413684e-06, -0.00019843093468807638, 0.008333350531756878,
                 -0.1666666716337204),
       "double": (-8.005858059980551e-18, 2.810466816590253e-15, -7.647139048550473e-13, 1.605904347799452e-10,
                  -2.505210838237619e-08, 2.7557319223971175e-06, -0.00019841269841269806, 0.008333333333333333,
                  -0.16666666666666666)}
# erf(x) / x - 1 in x^2
ERF = {"float": (7.875874871388078e-05, -0.000801686430349946, 0.005189087241888046, -0.02685421146452427,
                 0.11283594369888306, -0.3761262595653534, 0.12837916709551256),
       "double": (5.957176147748911e-11, -1.1372848856791674e-09, 1.4659775274047436e-08, -1.6350312701054695e-07,
                  1.6461000484121368e-06, -1.4925595266831182e-05, 0.0001205533111164271, -0.000854832698083379,
                  0.0052239776248180145, -0.026866170645076792, 0.11283791670954879, -0.3761263890318375,
                  0.12837916709551256)}
# float32: log2(erfc(x)) in x - 2.5 for 1 <= x <= 4, and 2**f; float64: erfc(x) exp(x^2) in t = (x - 2.5) / (x + 2.5)
LOG2_ERFC = (0.0002672531991265714, -0.000227802200242877, 0.0035395172890275717, -0.015469763427972794, -1.3617430925369263,
             -7.722306251525879, -11.262857437133789)
EXP2_SHORT = (0.00015461444854736328, 0.0013400427997112274, 0.009618056938052177, 0.05550327152013779, 0.24022650718688965,
              0.6931471824645996, 1.0)
# float32, of the normal distribution's tail q(x) = erfc(x / sqrt 2) / 2: log2(q) in x - 2.5, up to 14; q exp(x^2 / 2) in x - 2, up to 6
LOG2_TAIL = (-1.0840841468962026e-06, -1.2241553122294135e-06, 6.240762741072103e-05, -0.00015996064757928252, 0.0017029551090672612,
             -0.01033767033368349, -0.6572293639183044, -4.072381496429443, -7.331268310546875)
SCALED_TAIL = (-3.1557451052321994e-07, 7.665845487281331e-07, -1.495792822936437e-08, 8.840749615046661e-06, -4.4305550545686856e-05,
               0.00014208357606548816, -0.0005415332852862775, 0.001983173657208681, -0.006706874817609787, 0.021309908479452133,
               -0.06273838132619858, 0.16810211539268494)
ERFC = {"double": (7.128369744101394e-08, 3.4415685933368833e-07, 7.651113289601767e-08, -1.8019756901272904e-06,
                   -2.297743185563478e-06, 7.552584904662435e-06, 1.8614399214652582e-05, -3.4182236556385346e-05,
                   -0.00012887716606795616, 0.0002283803787666349, 0.0008759154498654104, -0.0026423659642906324,
                   -0.003993701165851016, 0.0399225390755846, -0.1250330523788294, 0.2517131932174493,
                   -0.37173673394897333, 0.2108063640611436)}
# 64 zero bits and then the binary digits of 2/pi
TWO_OVER_PI = (0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
               0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
               0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
               0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d)


def reduced_exponent(x: Value) -> tuple[Value, Value, Value]:
    """(i, r, t) with x = i ln2 + r, |r| <= ln2 / 2, and t = exp(r) - 1; i an integer value."""
    kind = x.type.element
    shifted = x.fma(LOG2E, MAGIC[kind])
    n = shifted - MAGIC[kind]
    high, low = LN2[kind]
    first = (-n).fma(high, x)
    r = (-n).fma(low, first)
    lost = (-n).fma(low, first - r)
    t = r + (r * r).fma(r.polynomial(*EXPM1[kind]), lost)
    bits = shifted.bitcast(x.type.integer.element)
    magic = x.constant(MAGIC[kind]).bitcast(x.type.integer.element)
    return bits - magic, r, t


def power_of_two(i: Value, kind: str) -> Value:
    """2**i for i in the normal range."""
    return ((i + BIAS[kind]) << MANTISSA[kind]).bitcast(kind)


def scaled(value: Value, n: Value, i: Value) -> Value:
    """value * 2**n, rounded once also where that is denormal, infinite where it is too large; i is n as an integer."""
    kind, lanes = value.type.element, value.type.lanes
    if lanes * value.type.bits == 512 and llvm.host().vector_bits == 512:
        suffix, mask = ("ps", "i16 -1") if kind == "float" else ("pd", "i8 -1")
        symbol = f"llvm.x86.avx512.mask.scalef.{suffix}.512"
        function = value.function
        function.module.declare(f"declare {value.type} @{symbol}({value.type}, {value.type}, {value.type}, {mask.split()[0]}, i32)")
        return function.emit(value.type, f"call {value.type} @{symbol}({value}, {n}, {value.type} zeroinitializer, {mask}, i32 4)")
    # Two factors, so that neither overflows and a denormal result is rounded once.
    half = i >> 1
    return value * power_of_two(half, kind) * power_of_two(i - half, kind)


def exp(x: Value) -> Value:
    kind = x.type.element
    high, low = (89.0, -104.5) if kind == "float" else (710.0, -746.0)
    x = x.below(high).above(low)
    if looks_up(x.type):
        return exp_by_sixteenths(x)
    shifted = x.fma(LOG2E, MAGIC[kind])
    n = shifted - MAGIC[kind]
    integer = x.type.integer.element
    if kind == "float":
        # The first step is exact.
        r = (-n).fma(LN2[kind][1], (-n).fma(LN2[kind][0], x))
        p = r.polynomial(*EXP_FLOAT, 1.0, 1.0)
    else:
        _, _, t = reduced_exponent(x)
        p = t + 1.0
    return scaled(p, n, shifted.bitcast(integer) - x.constant(MAGIC[kind]).bitcast(integer))


def exp_by_sixteenths(x: Value) -> Value:
    """float32 with tables: x = n ln2 + r, n a multiple of 1/16 whose fraction picks a power of two, |r| <= ln2 / 32."""
    magic = MAGIC["float"] / 16
    shifted = x.fma(LOG2E, magic)
    n = shifted - magic
    r = (-n).fma(LN2["float"][1], (-n).fma(LN2["float"][0], x))
    t = (r * r).fma(r.polynomial(*EXP_SIXTEENTH), r)
    high, low = [looked_up(shifted.bitcast("i32"), table) for table in POWERS]
    # The instruction rounds n down by itself.
    return scaled(high + high.fma(t, low), n, shifted)


def expm1(x: Value) -> Value:
    kind = x.type.element
    high, low = (89.0, -20.0) if kind == "float" else (710.0, -45.0)
    i, _, p = reduced_exponent(x.below(high).above(low))
    # 2**i (1 + p) - 1, at half the size so that i = 128 does not overflow too early.
    scale = power_of_two(i - 1, kind)
    value = scale.fma(p, scale - 0.5)
    # Half of a denormal would lose its last bit, and -0 must stay.
    return (abs(x) < 1e-30).select(x, value + value)


def decomposed(x: Value) -> tuple[Value, Value]:
    """(k, m) with x = 2**k m and m near 1; x positive, finite and normal."""
    kind = x.type.element
    integer = x.type.integer.element
    shift = MANTISSA[kind]
    root = x.constant(0.7071067811865476).bitcast(integer)
    bits = x.bitcast(integer) - root
    k = (bits >> shift).cast("sitofp", kind)
    m = ((bits & ((1 << shift) - 1)) + root).bitcast(kind)
    return k, m


def log_core(k: Value, f: Value) -> Value:
    """k ln2 + log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    kind = f.type.element
    high, low = LN2[kind]
    half = f * f * 0.5
    if kind == "float":
        tail = (f * f * f).fma(f.polynomial(*LOG_FLOAT), k * low)
    else:
        s = f / (f + 2.0)
        z = s * s
        tail = s.fma(half + z * z.polynomial(*LOG_DOUBLE), k * low)
    return k.fma(high, f - (half - tail))


def normalised(x: Value) -> tuple[Value, Value]:
    """(x scaled out of the denormals, the exponent to take back)."""
    kind = x.type.element
    tiny, power = (1.1754943508222875e-38, 23.0) if kind == "float" else (2.2250738585072014e-308, 52.0)
    small = x < tiny
    return small.select(x * 2.0**power, x), small.select(x.constant(-power), 0.0)


def logarithm_ends(x: Value, value: Value) -> Value:
    value = x.equal(INF).select(x, value)
    value = x.equal(0.0).select(x.constant(-INF), value)
    return x.compare("ult", 0.0).select(x.constant(float("nan")), value)


def log(x: Value) -> Value:
    scaled, extra = normalised(x)
    k, m = decomposed(scaled)
    return logarithm_ends(x, log_core(k + extra, m - 1.0))


def log1p(x: Value) -> Value:
    kind = x.type.element
    u = x + 1.0
    # What rounding 1 + x lost, brought to the scale of m.
    lost = (x > 1.0).select(1.0 - (u - x), x - (u - 1.0))
    k, m = decomposed(u)
    factor = power_of_two(-(k.cast("fptosi", x.type.integer.element)), kind)
    value = logarithm_ends(u, log_core(k, lost.fma((x < 1e30).select(factor, 0.0), m - 1.0)))
    return (abs(x) < 1e-30).select(x, value)


def log_scaled(x: Value, factor: float, low: float, whole: tuple[float, float]) -> Value:
    """log(x) times factor + low, the exponent's part taken exactly from `whole`."""
    scaled, extra = normalised(x)
    k, m = decomposed(scaled)
    k = k + extra
    part = log_core(k.constant(0.0), m - 1.0)
    value = k.fma(whole[0], part.fma(factor, k.fma(whole[1], part * low)))
    return logarithm_ends(x, value)


def log2(x: Value) -> Value:
    factor, low = (1.4426950216293335, 1.9259629911266175e-08) if x.type.element == "float" else (LOG2E, 2.0355273740931033e-17)
    return log_scaled(x, factor, low, (1.0, 0.0))


def log10(x: Value) -> Value:
    if x.type.element == "float":  # the first part of log10(2) times an exponent is exact
        return log_scaled(x, 0.4342944920063019, -1.0103050052231683e-08, (0.301025390625, 4.605038981195214e-06))
    return log_scaled(x, 0.4342944819032518, 1.098319650216765e-17, (0.3010299956639812, -2.8037281277851704e-18))


def exp2(x: Value) -> Value:
    kind = x.type.element
    x = x.below(129.0).above(-151.0) if kind == "float" else x.below(1025.0).above(-1076.0)
    shifted = x + MAGIC[kind]
    n = shifted - MAGIC[kind]
    r = x - n
    if kind == "float":
        p = r.polynomial(*EXP2_SHORT)
    else:
        t = r * LN2["double"][0]
        lost = r.fma(LN2["double"][0], -t) + r * LN2["double"][1]
        p = (t * t).fma(t.polynomial(*EXPM1[kind]), lost) + t + 1.0
    integer = x.type.integer.element
    return scaled(p, n, shifted.bitcast(integer) - x.constant(MAGIC[kind]).bitcast(integer))


def sine_polynomial(r: Value) -> Value:
    z = r * r
    return (z * z.polynomial(*SIN[r.type.element])).fma(r, r)


def flipped(value: Value, bits: Value) -> Value:
    """value, negated where the lowest bit of `bits` is set."""
    integer = value.type.integer.element
    return (value.bitcast(integer) ^ (bits << (value.type.bits - 1))).bitcast(value.type.element)


def sin(x: Value) -> Value:
    kind = x.type.element
    shifted = x.fma(0.3183098861837907, MAGIC[kind])
    n = shifted - MAGIC[kind]
    r = x
    for part in PI[kind]:
        r = (-n).fma(part, r)
    # The polynomial has the sign of r, but for -0, where its last addition gives +0.
    sign = flipped(r, shifted.bitcast(x.type.integer.element))
    return with_large(x, sine_polynomial(r).copysign(sign), 0)


def cos(x: Value) -> Value:
    kind = x.type.element
    shifted = (x * 0.3183098861837907 - 0.5) + MAGIC[kind]
    n = (shifted - MAGIC[kind]) + 0.5
    r = x
    for part in PI[kind]:
        r = (-n).fma(part, r)
    return with_large(x, flipped(-sine_polynomial(r), shifted.bitcast(x.type.integer.element)), 1)


LARGE = {"float": 30000.0, "double": 1.0e6}


def with_large(x: Value, value: Value, shift: int) -> Value:
    """`value`, but computed with all the digits of pi in lanes where |x| is large (a branch that is rarely taken)."""
    function = x.function
    size = abs(x)
    large = size.compare("uge", LARGE[x.type.element])  # or infinite, or NaN: those come back as they are
    hit = large if x.type.lanes == 1 else function.intrinsic(
        "vector.reduce.or", large, result=Type("i1"), types=(large.type,))
    before = function.label
    tag = function.fresh("large")
    function.branch_if(hit, f"{tag}.yes", f"{tag}.no", rarely=True)
    function.block(f"{tag}.yes")
    slow = function.call(large_trigonometric(function.module, x.type, shift), x.type, x, value)
    function.branch(f"{tag}.no")
    function.block(f"{tag}.no")
    return function.phi(x.type, [(value.text, before), (slow.text, f"{tag}.yes")])


def large_trigonometric(module: object, type: Type, shift: int) -> str:
    """A function that replaces the lanes of `fast` where |x| is large: sine (shift 0) or cosine (shift 1)."""
    name = f"{'cos' if shift else 'sin'}_large_{type.mangled}"
    if name in module.functions:
        return name
    scalar = reduce_by_half_pi(module)
    f = module.function(name, str(type), [("x", type), ("fast", type)], llvm.PLAIN, "internal")
    x, fast = f.parameters
    lane_type = Type(type.element)
    source, target = f.alloca(type), f.alloca(type)
    f.store(x, source, 64)
    f.store(fast, target, 64)

    def lane(i: Value) -> None:
        value = f.load(lane_type, f.address(source, i, type.element), lane_type.bits // 8)
        size = abs(value)

        def replace() -> None:
            wide = value if type.element == "double" else value.cast("fpext", "double")
            result = f.call(scalar, Type("double"), wide, f.i64(shift))
            narrow = result if type.element == "double" else result.cast("fptrunc", "float")
            f.store(narrow, f.address(target, i, type.element), lane_type.bits // 8)

        f.when((size >= LARGE[type.element]) & (size < INF), replace)

    f.loop(f.i64(0), f.i64(type.lanes), 1, lane)
    f.ret(f.load(type, target, 64))
    return name


def reduce_by_half_pi(module: object) -> str:
    """double f(double x, i64 shift): sin(x + shift pi/2) for any finite |x| >= 2**14, by multiplying with 2/pi exactly.

    x = m 2**e; digits of 2/pi that make multiples of four are skipped, and the next 192 are multiplied by m.
    """
    name = "trigonometric_large"
    if name in module.functions:
        return name
    table = module.table("two_over_pi", "i64", list(TWO_OVER_PI))
    f = module.function(name, "double", [("x", Type("double")), ("shift", Type("i64"))], llvm.PLAIN, "internal")
    x, shift = f.parameters
    bits = x.bitcast("i64")
    exponent = (bits.lshr(52) & 0x7FF) - 1075
    m = (bits & ((1 << 52) - 1)) | (1 << 52)
    start = exponent + 62
    index, offset = start.lshr(6), start & 63
    words = [f.load(Type("i64"), f.address(Value(f, table, Type("ptr")), index + i, "i64"), 8) for i in range(4)]
    window = [f.intrinsic("fshl", words[i], words[i + 1], offset) for i in range(3)]
    wide = m.cast("zext", "i128")
    product = (wide * window[1].cast("zext", "i128")
               + (wide * window[2].cast("zext", "i128")).lshr(64)
               + ((wide * window[0].cast("zext", "i128")) << 64))
    fraction = product << 2
    quadrant = product.lshr(126).cast("trunc", "i64") + fraction.lshr(127).cast("trunc", "i64")
    negative = fraction < 0
    size = negative.select(-fraction, fraction)
    zeros = f.emit(Type("i128"), f"call i128 @llvm.ctlz.i128({size}, i1 false)")
    module.declare("declare i128 @llvm.ctlz.i128(i128, i1)")
    top = (size << (zeros & 127)).lshr(64).cast("trunc", "i64").cast("uitofp", "double")
    scale = ((1023 - 64 - zeros.cast("trunc", "i64")) << 52).bitcast("double")
    t = top * scale
    r = t.fma(HALF_PI, t * HALF_PI_LOW)
    quadrant = f.emit(Type("i64"), f"sub {quadrant - 0}, 0")
    # The sign of x and of the fraction: sin(-y) = -sin(y), so both go onto the angle.
    below = bits < 0
    r = negative.select(-r, r)
    r = below.select(-r, r)
    quadrant = below.select(-quadrant, quadrant) + shift
    angle = (quadrant & 1).differs(0).select(HALF_PI - abs(r) + HALF_PI_LOW, r)
    value = sine_polynomial(angle)
    f.ret((quadrant & 2).differs(0).select(-value, value))
    return name


def tan(x: Value) -> Value:
    """float64 only (float32 comes through it): the quotient of sine and cosine."""
    return sin(x) / cos(x)


def tanh(x: Value) -> Value:
    """float32: an odd polynomial up to 0.55, 1 - 2 / (exp(2|x|) + 1) beyond; float64: e / (e + 2) with e = exp(2|x|) - 1."""
    kind = x.type.element
    if looks_up(x.type):
        return tanh_by_pieces(x)
    if kind == "float":
        size = abs(x)
        y = size.below(9.1)
        shifted = y.fma(2 * LOG2E, MAGIC[kind])
        n = shifted - MAGIC[kind]
        half = (-n).fma(LN2[kind][1] / 2, (-n).fma(LN2[kind][0] / 2, y))
        p = half.polynomial(*[c * 2.0 ** (6 - i) for i, c in enumerate(EXP_FLOAT)], 2.0, 1.0)
        # n <= 27 goes into the exponent by an integer addition.
        e = (p.bitcast("i32") + (shifted.bitcast("i32") << 23)).bitcast("float")
        far = 1.0 - 2.0 / (e + 1.0)
        z = x * x
        near = (size * z).fma(z.polynomial(*TANH), size)
        # NaN takes the polynomial.
        return (size >= 0.55).select(far, near).copysign(x)
    # expm1 for an argument that neither overflows nor needs its sign.
    i, _, t = reduced_exponent((abs(x) + abs(x)).below(2 * 19.1))
    scale = power_of_two(i, kind)
    e = scale.fma(t, scale - 1.0)
    # From e = 2 on, rounding e + 2 hardly moves the quotient (and what it lost is no longer found this way).
    return refined(e, 2.0, e, lambda q: (e < 2.0).select((1.0 - q) * 0.5, 0.0)).copysign(x)


def refined(numerator: Value, one: float, e: Value, inverse: object) -> Value:
    """numerator / (one + e), with what rounding the sum and the quotient lost put back; `inverse(q)` is about 1 / (one + e)."""
    total = e + one
    q = numerator / total
    rest = (-q).fma(e - (total - one), (-q).fma(total, numerator))
    return rest.fma(inverse(q), q)


def sigmoid(x: Value) -> Value:
    e = exp(-abs(x))
    below = x < 0.0
    return refined(below.select(e, 1.0), 1.0, e, lambda q: below.select(1.0 - q, q))


def erf(x: Value) -> Value:
    kind = x.type.element
    size = abs(x).below(4.0 if kind == "float" else 6.0)
    near = x.fma((x * x).polynomial(*ERF[kind]), x)
    if kind == "float":
        # The power of two needs no care: its argument lies between -27 and -2, and NaN comes through.
        far = 1.0 - exp2_short((size - 2.5).polynomial(*LOG2_ERFC))
    else:
        t = (size - 2.5) / (size + 2.5)
        far = 1.0 - exp(-(size * size)) * t.polynomial(*ERFC[kind])
    return (size < 1.0).select(near, far.copysign(x))


def exp2_short(x: Value) -> Value:
    """2**x for float32 x of -127 (which gives 0) to 126, NaN kept."""
    shifted = x + MAGIC["float"]
    f = x - (shifted - MAGIC["float"])
    return f.polynomial(*EXP2_SHORT) * ((shifted.bitcast("i32") << 23) + (127 << 23)).bitcast("float")


def normal_cdf(x: Value) -> Value:
    """The normal distribution function, to about 2 ** -24 (float32) of 1: what gelu multiplies by."""
    if x.type.element != "float":
        return (erf(x * 0.7071067811865476) + 1.0) * 0.5
    tail = exp2_short((abs(x).below(14.0) - 2.5).polynomial(*LOG2_TAIL).above(-127.0))
    return (x < 0.0).select(tail, 1.0 - tail)


def gelu_slope(x: Value) -> Value:
    """The derivative of x * cdf(x), cdf the normal distribution: one exponential serves both the tail and the density."""
    kind = x.type.element
    if kind != "float":
        return normal_cdf(x) + x * exp(x * x * -0.5) * 0.3989422804014327
    density = exp2_short((x * x * (-0.5 * LOG2E)).above(-127.0))
    tail = density * (abs(x).below(6.0) - 2.0).polynomial(*SCALED_TAIL)
    return (x * density).fma(0.3989422804014327, (x < 0.0).select(tail, 1.0 - tail))


def hypot(x: Value, y: Value) -> Value:
    """float64 arithmetic for float32 results."""
    infinite = abs(x).equal(INF) | abs(y).equal(INF)
    return infinite.select(x.constant(INF), x.fma(x, y * y).sqrt())


def sinh(x: Value) -> Value:
    t = expm1(abs(x).below(700.0))
    return ((t + t / (t + 1.0)) * 0.5).copysign(x)


def cosh(x: Value) -> Value:
    e = exp(abs(x))
    return 0.5 * e + 0.5 / e


def asinh(x: Value) -> Value:
    a = abs(x)
    t = log1p(a + a * a / ((a * a + 1.0).sqrt() + 1.0))
    return a.equal(INF).select(x, t.copysign(x))


def acosh(x: Value) -> Value:
    t = x - 1.0
    return x.compare("ult", 1.0).select(x.constant(float("nan")), x.equal(INF).select(x, log1p(t + (2.0 * t + t * t).sqrt())))


def atanh(x: Value) -> Value:
    a = abs(x)
    return (0.5 * log1p(2.0 * a / (1.0 - a))).copysign(x)


def power(x: Value, y: Value) -> Value:
    """float64 arithmetic for float32 results; the corners are those of C's pow."""
    size = abs(x)
    value = exp(y * log(size))
    whole = y.equal(y.function.intrinsic("trunc", y))
    half = y * 0.5
    odd = whole & half.differs(y.function.intrinsic("trunc", half)) & (abs(y) < INF)
    negative = x.bitcast("i64") < 0
    value = (negative & odd).select(-value, value)
    invalid = (x < 0.0) & ~whole & (size < INF)
    value = invalid.select(x.constant(float("nan")), value)
    # inf * 0 and 0 * inf inside the exponent: |x| = 1, or y = 0.
    return (x.equal(1.0) | y.equal(0.0) | (x.equal(-1.0) & abs(y).equal(INF))).select(x.constant(1.0), value)


def fmod(x: Value, y: Value) -> Value:
    """By one quotient where that is exact to a unit; else (a branch that is rarely taken) the C library."""
    a, b = abs(x), abs(y)
    q = x.function.intrinsic("trunc", a / b)
    r = (-q).fma(b, a)
    r = (r < 0.0).select(r + b, r)
    r = (r >= b).select(r - b, r)
    result = (a < b).select(a, r).copysign(x)
    large = (q >= 2.0 ** (MANTISSA[x.type.element] - 1)) & (a < INF) & (b > 0.0)
    return replaced_lanes(result, large, "fmod" if x.type.element == "double" else "fmodf", x, y)


def replaced_lanes(value: Value, lanes: Value, symbol: str, *args: Value) -> Value:
    """`value`, but what the C library's function gives if any of `lanes` is set."""
    function = value.function
    hit = lanes if value.type.lanes == 1 else function.intrinsic("vector.reduce.or", lanes, result=Type("i1"), types=(lanes.type,))
    before, tag = function.label, function.fresh("library")
    function.branch_if(hit, f"{tag}.yes", f"{tag}.no", rarely=True)
    function.block(f"{tag}.yes")
    slow = lane_by_lane(symbol, args)
    function.branch(f"{tag}.no")
    function.block(f"{tag}.no")
    return function.phi(value.type, [(value.text, before), (slow.text, f"{tag}.yes")])


def nextafter(x: Value, y: Value) -> Value:
    """One step of the bit pattern, which goes up with the size."""
    integer = x.type.integer.element
    away = (x < y) ^ (x.bitcast(integer) < 0)
    bits = x.bitcast(integer) + away.select(x.constant(0).bitcast(integer) + 1, -1)
    smallest = (x.constant(0.0).bitcast(integer) + 1).bitcast(x.type.element).copysign(y)
    moved = x.equal(0.0).select(smallest, bits.bitcast(x.type.element))
    return (x.is_nan() | y.is_nan()).select(x + y, x.equal(y).select(y, moved))


# Functions with float32 and float64 forms, and those whose only form is good for double arguments that came from
# floats (they would overflow or lose too many bits for true doubles, which go to the C library).
BOTH = {"exp": exp, "expm1": expm1, "exp2": exp2, "log": log, "log1p": log1p, "log2": log2, "log10": log10, "sin": sin, "cos": cos,
        "tanh": tanh, "sigmoid": sigmoid, "erf": erf, "gelu_slope": gelu_slope, "normal_cdf": normal_cdf, "atan": atan, "asin": asin,
        "acos": acos, "atan2": atan2, "fmod": fmod, "nextafter": nextafter}
THROUGH_DOUBLE = {"tan": tan, "sinh": sinh, "cosh": cosh, "asinh": asinh, "acosh": acosh, "atanh": atanh, "pow": power, "hypot": hypot}
LIBRARY = {"cbrt": "cbrt", **{name: name for name in THROUGH_DOUBLE}}
NAMES = frozenset({*BOTH, *THROUGH_DOUBLE, *LIBRARY})


def call(name: str, *args: Value) -> Value:
    """The value of a mathematical function; all arguments have one float type."""
    function, type = args[0].function, args[0].type
    double = type.element == "double"
    if name in BOTH:
        body = BOTH[name]
    elif not double and name in THROUGH_DOUBLE:
        body = THROUGH_DOUBLE[name]
        wide = [a.cast("fpext", "double") for a in args]
        return function.call(written(function, f"{name}_wide", body, wide), wide[0].type, *wide).cast("fptrunc", "float")
    else:
        return lane_by_lane(LIBRARY[name] + ("" if double else "f"), args)
    return function.call(written(function, name, body, args), type, *args)


def written(function: Function, name: str, body: object, args: tuple | list) -> str:
    """The module's function for `body` at this type."""
    type = args[0].type
    symbol = f"{name}_{type.mangled}"
    if symbol not in function.module.functions:
        # One value of a power, such as a correction that Adam makes once a step, is worth a call: a hundred instructions would be compiled at each.
        inner = function.module.function(symbol, str(type), [(f"a{i}", type) for i in range(len(args))],
                                         f"{'noinline' if body is power and type.lanes == 1 else 'alwaysinline'} nounwind", "internal")
        inner.ret(body(*inner.parameters))
    return symbol


def lane_by_lane(symbol: str, args: tuple) -> Value:
    function, type = args[0].function, args[0].type
    lane = Type(type.element)
    if type.lanes == 1:
        return function.call(symbol, lane, *args, declare=True)
    result = Value(function, "poison", type)
    for i in range(type.lanes):
        result = function.insert(result, function.call(symbol, lane, *[function.extract(a, i) for a in args], declare=True), i)
    return result
