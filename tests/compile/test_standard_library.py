"""Code of the standard library inside compiled functions: it is followed, broken and resumed, and gives what it gives as it is."""
import importlib
import re

import pytest

import rushlight as torch

MODULES = """
    array ast base64 binascii bisect calendar cmath codecs collections colorsys copy datetime decimal difflib email.utils fnmatch
    fractions functools getopt graphlib hashlib heapq html http.cookies inspect io ipaddress json keyword math mimetypes operator
    pathlib plistlib posixpath pprint quopri random re reprlib shlex statistics string struct sys textwrap token tokenize types
    urllib.parse uuid
""".split()
SCOPE = {name.partition(".")[0]: importlib.import_module(name.partition(".")[0]) for name in MODULES} | {"torch": torch}
for name in MODULES:
    importlib.import_module(name)
SCOPE["ET"] = importlib.import_module("xml.etree.ElementTree")
EXPRESSIONS = [
    "textwrap.wrap('the quick brown fox jumps over the lazy dog '*3, 30)",
    "textwrap.dedent('  a\\n   b\\n  c')",
    "textwrap.shorten('hello world foo bar', 12)",
    "textwrap.indent('a\\nb\\n', '> ')",
    "textwrap.fill('the quick brown fox', 8, initial_indent='* ')",
    'statistics.mean([1,2,3,4.5])',
    'statistics.stdev([1.5,2.5,4])',
    'statistics.median([3,1,2])',
    "statistics.mode('aabbb')",
    'statistics.quantiles([1,2,3,4,5])',
    'statistics.linear_regression([1,2,3],[2,4,7])',
    'statistics.NormalDist(0,1).cdf(0.3)',
    "statistics.multimode('aabbc')",
    'statistics.fmean([1,2],[3,4]) if sys.version_info >= (3,11) else 0',
    'statistics.correlation([1,2,3],[3,1,2])',
    'fractions.Fraction(3,4)+fractions.Fraction(1,6)',
    "fractions.Fraction('3.25')*2",
    'fractions.Fraction(1.1).limit_denominator(100)',
    'str(fractions.Fraction(7,3)), divmod(fractions.Fraction(7,3), 1)',
    'fractions.Fraction(1,3) < fractions.Fraction(1,2), hash(fractions.Fraction(1,2))',
    "difflib.SequenceMatcher(None,'abcde','abxde').ratio()",
    "difflib.get_close_matches('appel', ['ape','apple','peach'])",
    "list(difflib.unified_diff(['a','b'],['a','c'], lineterm=''))",
    "list(difflib.ndiff(['one\\n','two\\n'],['one\\n','tow\\n']))",
    'list(heapq.merge([1,4,7],[2,5],[3]))',
    'heapq.nlargest(2,[3,1,5,2]), heapq.nsmallest(2,[3,1,5,2], key=lambda v: -v)',
    "string.Template('$a and ${b}').substitute(a=1,b='x')",
    "string.Formatter().format('{0:>5} {x!r}', 3, x='q')",
    "string.capwords('hello big world')",
    'shlex.split(\'a "b c" d\\\'e f\\\'\')',
    "shlex.join(['a b','c'])",
    'shlex.quote("it\'s")',
    "urllib.parse.urlparse('http://u:p@h.com:80/p;x?q=1&q=2#f')",
    "urllib.parse.parse_qs('a=1&b=2&a=3')",
    "urllib.parse.urlencode({'a':'x y','b':[1,2]}, doseq=True)",
    "urllib.parse.urljoin('http://a/b/c','../d')",
    "urllib.parse.quote('a b/ü'), urllib.parse.unquote('a%20b')",
    "posixpath.normpath('/a/./b/../c'), posixpath.relpath('/a/b','/a/c'), posixpath.splitext('x.tar.gz'), posixpath.join('a','/b','c')",
    "posixpath.commonpath(['/a/b/c','/a/b/d'])",
    "fnmatch.translate('*.py[co]')",
    "fnmatch.filter(['a.py','b.txt'],'*.py')",
    'ast.literal_eval("{\'a\':[1,2,(3,)], \'b\':-4.5}")',
    "ast.dump(ast.parse('x=1+2'))",
    "ast.unparse(ast.parse('def f(a,b=1): return a if b else [x for x in a]'))",
    'html.escape(\'<a href="x">\'), html.unescape(\'&lt;&eacute;&#39;\')',
    "base64.b64encode(b'hello'), base64.b32encode(b'hi'), base64.b85encode(b'abcd')",
    "base64.b32decode('NBUQ===='), base64.a85encode(b'test')",
    'colorsys.rgb_to_hsv(.2,.4,.6), colorsys.hls_to_rgb(.3,.5,.6)',
    'calendar.month(2024,2), calendar.isleap(2000), calendar.monthrange(2023,2)',
    'calendar.TextCalendar().formatyear(2023)[:60]',
    "list(graphlib.TopologicalSorter({'a':['b'],'b':['c']}).static_order())",
    "ipaddress.ip_address('192.168.0.1'), ipaddress.ip_network('10.0.0.0/30').num_addresses, list(ipaddress.ip_network('10.0.0.0/30').hosts())",
    "ipaddress.ip_address('::1').exploded",
    "pprint.pformat({'a':list(range(30)),'b':{'c':'d'*50}}, width=40)",
    "reprlib.repr(list(range(100))), reprlib.repr('x'*100)",
    "copy.deepcopy({'a':[1,{2:3}],'b':(1,[2])})",
    "collections.ChainMap({'a':1},{'b':2,'a':3})['b'], dict(collections.ChainMap({'a':1},{'b':2}))",
    "collections.UserDict({'a':1})|{'b':2}, collections.UserList([1,2])+[3], collections.UserString('ab')*2",
    "(lambda d: (d.move_to_end('a'), list(d)))(collections.OrderedDict(a=1,b=2))",
    "collections.Counter('abracadabra').most_common(2)",
    'collections.Counter(a=3)-collections.Counter(a=1,b=2), +collections.Counter(a=-1,b=2)',
    'functools.reduce(operator.mul, range(1,6)), functools.cmp_to_key(lambda a,b: b-a)(3) < functools.cmp_to_key(lambda a,b: b-a)(2)',
    'sorted([3,1,2], key=functools.cmp_to_key(lambda a,b: b-a))',
    "json.dumps({'a':[1,2.5,None,True],'b':'é'}, indent=1, sort_keys=True)",
    'json.loads(\'{"a":[1,2.5,null,true]}\')',
    "re.sub(r'(\\w+)@(\\w+)', r'\\2 at \\1', 'me@home you@work')",
    "re.findall(r'\\d+', 'a1b22c333'), re.split(r'[,;]', 'a,b;c')",
    "[m.group(0) for m in re.finditer('[a-z]+', 'ab1cd')]",
    "re.compile('(?P<x>a+)(b)?').match('aaab').groupdict()",
    'random.Random(3).sample(range(100), 5), random.Random(3).shuffle([1,2])',
    "random.Random(0).gauss(0,1), random.Random(1).choices('abc', weights=[1,2,3], k=4)",
    "uuid.UUID('12345678123456781234567812345678').urn, uuid.uuid5(uuid.NAMESPACE_DNS,'x')",
    "getopt.getopt(['-a','-b','x','rest'],'ab:')",
    "quopri.encodestring(b'a=\\xe9'), codecs.encode('abc','rot13')",
    "datetime.date(2024,2,29)+datetime.timedelta(days=366), datetime.datetime(2020,1,1).isoformat(), datetime.datetime.strptime('2021-03-04','%Y-%m-%d')",
    "decimal.Decimal('1.10')+decimal.Decimal('2.2'), decimal.Decimal(2).sqrt()",
    'math.comb(10,3), cmath.sqrt(-1), math.fsum([.1]*10), math.prod([1,2,3])',
    'ET.tostring(ET.fromstring(\'<a x="1"><b>t</b></a>\'))',
    "email.utils.parseaddr('Joe <joe@x.org>'), email.utils.formataddr(('Jö','a@b.c'))",
    "http.cookies.SimpleCookie('a=1; b=2').output()",
    "mimetypes.guess_type('x.tar.gz')",
    'inspect.signature(lambda a,b=1,*c,d,**e: 0), inspect.getdoc(len) is not None',
    "inspect.cleandoc('  a\\n    b')",
    "pathlib.PurePosixPath('/a/b/c.txt').with_suffix('.py').relative_to('/a'), pathlib.PurePath('a')/'b'",
    "list(token.tok_name.items())[:3], keyword.iskeyword('if')",
    "[t.string for t in tokenize.generate_tokens(io.StringIO('a = 1 + b').readline)]",
    "plistlib.dumps({'a':1})[:40]",
    "types.SimpleNamespace(a=1,b=2), types.MappingProxyType({'a':1})['a']",
    'bisect.bisect([1,2,3],2), bisect.insort([1,3],2)',
    "struct.pack('<if',1,2.5), binascii.hexlify(b'ab'), hashlib.md5(b'x').hexdigest()",
    "array.array('i',[1,2,3]).tolist()",
    "io.StringIO('a\\nb').readlines()",
]
# Without a break the call lies between two ops; with one, it runs on what the break left.
FORMS = {
    "followed": "def function(x):\n    y = x + 1\n    found = {}\n    return found, (y * 2).item()",
    "resumed": "def function(x):\n    y = x + 1\n    torch._dynamo.graph_break()\n    found = {}\n    return found, (y * (x * 2).sum()).sum().item()",
}


def shown(value):
    return re.sub("0x[0-9a-f]+", "0x", repr(value))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_same_as_ordinary_python(expression, form):
    scope = dict(SCOPE)
    exec(FORMS[form].format(expression), scope)
    function = scope["function"]
    expected, compiled = shown(function(torch.ones(1))), torch.compile(function)
    for _ in range(2):
        assert shown(compiled(torch.ones(1))) == expected
