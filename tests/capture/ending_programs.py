"""Programs that let go of objects whose end does something, and how some of them are called, for test_endings.py."""

PROGRAMS = {
    "generator_overwritten_after_an_effect": """
def f(x, out):
    g = gen('a', LOG)
    next(g)
    gb()
    LOG.append('before')
    g = None
    LOG.append('after')
    return x + 1
""",
    "generator_in_a_loop": """
def f(x, out):
    for i in range(3):
        gb()
        g = gen(i, LOG)
        LOG.append(next(g))
    LOG.append('end')
    return x
""",
    "before_a_native_call": """
def f(x, out):
    d = make('d')
    y = x + 1
    d = None
    native(1)
    LOG.append('after')
    return y
""",
    "del_unused_result": """
def f(x, out):
    make('d')
    LOG.append('after')
    native(1)
    return x
""",
    "inside": """
def f(x, out):
    d = D('d')
    LOG.append('made')
    d = None
    LOG.append('after')
    return x + 1
""",
    "inside_break": """
def f(x, out):
    d = D('d')
    gb()
    LOG.append('made')
    d = None
    LOG.append('after')
    gb()
    LOG.append('after2')
    return x + 1
""",
    "weakref_callback": """
def f(x, out):
    w = watch(W())
    y = x * 2
    w = None
    native(1)
    LOG.append('after')
    return y
""",
    "callee_local": """
def inner(x):
    d = make('in')
    gb()
    LOG.append('inner')
    return x + 1

def f(x, out):
    y = inner(x)
    LOG.append('outer')
    gb()
    LOG.append('outer2')
    return y
""",
    "callee_arg": """
def inner(x, d):
    d = None
    gb()
    LOG.append('inner')
    return x + 1

def f(x, out):
    y = inner(x, make('tmp'))
    LOG.append('outer')
    return y
""",
    "temp_operand_inside": """
@torch.compiler.disable
def eat(d):
    d = None
    LOG.append('eaten')

def f(x, out):
    eat(D('tmp'))
    LOG.append('outer')
    return x + 1
""",
    "in_list": """
def f(x, out):
    l = [make('a'), make('b')]
    gb()
    l.pop()
    LOG.append('popped')
    gb()
    LOG.append('x')
    l.clear()
    LOG.append('cleared')
    return x
""",
    "attr": """
class H:
    pass

def f(x, out):
    h = H()
    h.d = make('a')
    gb()
    h.d = make('b')
    LOG.append('set')
    gb()
    h = None
    LOG.append('end')
    return x
""",
    "try_finally": """
def f(x, out):
    try:
        g = gen('a', LOG)
        next(g)
        gb()
        g = gen('b', LOG)
        next(g)
        LOG.append('in')
    finally:
        LOG.append('fin f')
        gb()
        g = None
        LOG.append('fin f2')
    LOG.append('after')
    return x
""",
    "with": """
def f(x, out):
    with ctx('c', LOG) as c:
        d = make('d')
        gb()
        LOG.append(c)
        d = None
    LOG.append('after')
    gb()
    return x
""",
    "exitstack": """
def f(x, out):
    with contextlib.ExitStack() as s:
        s.enter_context(ctx('1', LOG))
        s.enter_context(ctx('2', LOG))
        gb()
        LOG.append('in')
    LOG.append('after')
    return x
""",
    "global_item": """
BOX = {}

def f(x, out):
    BOX['d'] = make('a')
    gb()
    del BOX['d']
    LOG.append('x')
    BOX['d'] = make('b')
    LOG.append('y')
    gb()
    BOX.clear()
    LOG.append('z')
    return x
""",
    "cell": """
def f(x, out):
    d = make('a')

    def g():
        return d
    gb()
    d = None
    LOG.append('x')
    gb()
    LOG.append('y')
    return x
""",
    "for_iter_gen_break": """
def f(x, out):
    for v in gen('a', LOG):
        gb()
        LOG.append(v)
        break
    LOG.append('after')
    gb()
    return x
""",
    "comprehension": """
def f(x, out):
    l = [make(i) for i in range(2)]
    gb()
    l = None
    LOG.append('x')
    return x
""",
    "tensor_weak": """
def f(x, out):
    t = x + 1
    r = weakref.ref(t)
    gb()
    t = None
    native(1)
    LOG.append(r() is None)
    return x
""",
    "arg_temp": """
def f(x, out, d):
    d = None
    gb()
    LOG.append('after')
    return x
""",
    "many_args": """
def f(x, out, *ds, k=None):
    ds = None
    k = None
    gb()
    LOG.append('after')
    return x
""",
    "native_callee_arg": """
def eat(d, flag):
    d = None
    LOG.append('eaten')
    for i in range(2):
        gb()
    LOG.append('eaten2')
    return flag

def f(x, out):
    eat(make('tmp'), 1)
    LOG.append('outer')
    eat(flag=2, d=make('tmp2'))
    return x + 1
""",
    "with_native_exit": """
class CM:

    def __init__(s, n):
        s.n = n

    def __enter__(s):
        LOG.append('en')
        return make('as')

    def __exit__(s, *a):
        LOG.append('ex')
        return True

def f(x, out):
    with CM(1) as c:
        gb()
        c = None
        LOG.append('in')
        raise ValueError
    LOG.append('after')
    gb()
    return x
""",
    "file": """
import tempfile, os
NAME = tempfile.mktemp()

def f(x, out):
    h = open(NAME, 'w')
    h.write('abc')
    h = None
    LOG.append(open(NAME).read())
    gb()
    os.remove(NAME)
    return x
""",
    "nested_gen": """
def outer(n):
    with ctx(n, LOG):
        for v in gen(n + 'i', LOG):
            yield v

def f(x, out):
    g = outer('o')
    LOG.append(next(g))
    gb()
    LOG.append(next(g))
    g = None
    LOG.append('z')
    return x
""",
    "zip_gen": """
def f(x, out):
    z = zip(gen('a', LOG), gen('b', LOG))
    LOG.append(next(z))
    gb()
    z = None
    LOG.append('z')
    gb()
    return x
""",
    "while_loop": """
def f(x, out):
    i = 0
    while True:
        d = make(i)
        if x.sum() + i > 4:
            break
        LOG.append(i)
        i += 1
    LOG.append('end')
    return x
""",
    "return_in_try": """
def inner(x):
    d = make('in')
    try:
        gb()
        return x
    finally:
        LOG.append('fin')

def f(x, out):
    y = inner(x)
    LOG.append('o')
    gb()
    return y
""",
    "recursion": """
def rec(x, n):
    d = make(n)
    gb()
    if n:
        x = rec(x, n - 1)
    LOG.append(('r', n))
    return x

def f(x, out):
    x = rec(x, 2)
    LOG.append('o')
    return x
""",
    "swap": """
def f(x, out):
    a = make('a')
    b = make('b')
    a, b = (b, a)
    LOG.append('1')
    gb()
    a = None
    LOG.append('2')
    a = b
    LOG.append('3')
    b = None
    LOG.append('4')
    a = None
    LOG.append('5')
    return x
""",
    "dict_pop": """
def f(x, out):
    t = {'a': make('a'), 'b': make('b')}
    gb()
    v = t.pop('a')
    LOG.append('1')
    v = None
    LOG.append('2')
    t['b'] = make('c')
    LOG.append('3')
    gb()
    t.update(b=1)
    LOG.append('4')
    return x
""",
    "lambda_default": """
def f(x, out):
    g = lambda d=make('a'): d.name
    LOG.append(g())
    gb()
    g = None
    LOG.append('1')
    return x
""",
    "partial": """
def f(x, out):
    g = functools.partial(len, [make('a')])
    gb()
    LOG.append(g())
    g = None
    LOG.append('1')
    return x
""",
    "many_calls_hot": """
def f(x, out, d):
    y = x * 2
    d = None
    native()
    LOG.append('e')
    return y
""",
    "kw_default": """
def f(x, out, *a, d, e=3, **k):
    y = x * 2
    d = None
    native()
    LOG.append('e')
    a = None
    LOG.append('a')
    k = None
    native()
    LOG.append('e2')
    return y
""",
    "plain_run": """
def f(x, out, d):
    for i in range(3):
        d = None
        gb()
        LOG.append(i)
    return x
""",
    "list_of_weak": """
def f(x, out):
    a = W()
    r = weakref.ref(a)
    gb()
    LOG.append(r() is a)
    a = None
    LOG.append(r() is None)
    b = watch(W())
    c = [b]
    b = None
    LOG.append('q')
    c = None
    LOG.append('w')
    return x
""",
    "weak_inside": """
def f(x, out):
    a = W()
    r = weakref.ref(a)
    LOG.append(r() is a)
    a = None
    LOG.append(r() is None)
    return x + 1
""",
    "finalize": """
def f(x, out):
    a = W()
    weakref.finalize(a, LOG.append, 'fz')
    LOG.append('b')
    a = None
    LOG.append('c')
    return x + 1
""",
    "exc_value": """
class E(Exception):

    def __del__(self):
        LOG.append('edel')

def f(x, out):
    try:
        raise E('k')
    except E as e:
        LOG.append('c')
        gb()
    LOG.append('e')
    gb()
    return x
""",
    "suppress": """
def f(x, out):
    with contextlib.suppress(KeyError):
        d = make('a')
        gb()
        raise KeyError
    LOG.append('s')
    d = None
    LOG.append('e')
    return x
""",
    "nn_attr": """
class M(torch.nn.Module):

    def __init__(s):
        super().__init__()
        s.h = None

    def forward(s, x):
        s.h = make('h')
        LOG.append('1')
        return x * 2
m = M()

def f(x, out):
    return m(x)
""",
    "slots": """
class S:
    __slots__ = ('a',)
S0 = S()

def f(x, out):
    S0.a = make('1')
    LOG.append('1')
    S0.a = None
    LOG.append('2')
    return x
""",
    "nonlocal": """
def f(x, out):
    d = make('a')

    def g():
        nonlocal d
        d = None
        LOG.append('g')
    gb()
    g()
    LOG.append('x')
    return x
""",
    "genexpr": """
def f(x, out):
    g = (make(i) for i in range(3))
    for d in g:
        LOG.append(d.name)
    LOG.append('end')
    d = None
    LOG.append('e2')
    return x
""",
    "exception_from_a_native_call": """
@torch.compiler.disable
def fails(k):
    raise KeyError(k)
def f(x, out):
    d = [make('a')]
    try:
        fails(1)
    except KeyError:
        LOG.append('caught')
    try:
        gb()
        fails(2)
    except KeyError:
        pass
    d = None
    LOG.append('after')
    return x
""",
}
CALLS = {
    "arg_temp": 'f(x, [], make("tmp"))',
    "many_args": 'f(x, [], make("t1"), make("t2"), k=make("k"))',
    "many_calls_hot": 'f(x, [], make("tmp"))',
    "kw_default": 'f(x, [], make("tmp"), d=make("d"), z=make("z"))',
    "plain_run": 'f(x, [], make("tmp"))',
}
