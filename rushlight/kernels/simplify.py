"""Rewrites of array expressions where combinations of steps have a cheaper form with the same meaning.

`joined_products` makes one product of a sum of many, as the gradient of a weight that a loop used is; `flattened` moves
reshapes from elementwise results to what they are made of; `turned` lets the layers of a small net follow one another transposed.
`differentiate` calls the first, `program` the others.
"""

import math
from collections.abc import Callable

from .arrays import Array, External, Number, Pad, Point, Reduce, Reshape, Source, Take, View, reshape_blocks, restrided, strided
from .make import Maker
from .rules_structure import many_joined
from .sizes import same

FEW = 6  # up to here a sum of products stays one
SMALL = 1 << 18  # multiplications of a product up to which what its panels cost counts


def joined_products(make: Maker, total: Array) -> Array:
    """a1 b1 + a2 b2 + ... -> [a1 a2 ...] [b1; b2; ...], also under a transposition"""
    if isinstance(total, View) and total.ndim == 2 and total.map == ((0, (0, 1)), (0, (1, 0))):
        below = joined_products(make, total.args[0])
        return total if below is total.args[0] else make.permute(below, [1, 0])
    terms: list[Array] = []
    stack = [total]
    while stack:
        array = stack.pop()
        if isinstance(array, Point) and array.op == "add" and all(same(arg.shape, total.shape) for arg in array.args):
            stack += array.args
        else:
            terms.append(array)
    alike: dict[tuple, list[Array]] = {}
    for term in terms:
        if isinstance(term, External) and term.kind == "matmul" and term.ndim == 2 and term.dtype == total.dtype:
            alike.setdefault((term.args[0].shape, term.args[1].shape), []).append(term)
    result = None
    joined: set[Array] = set()
    for products in alike.values():
        if len(set(products)) != len(products) or len(products) <= FEW:
            continue
        joined.update(products)
        left = rows(make, [make.permute(product.args[0], [1, 0]) for product in products])
        right = rows(make, [product.args[1] for product in products])
        one = make.external("matmul", [make.permute(left, [1, 0]), right], total.shape, total.dtype)
        result = one if result is None else make.raw("add", [result, one], total.dtype)
    if result is None:
        return total
    for term in terms:
        if term not in joined:
            result = make.raw("add", [result, term], total.dtype)
    return result


def rows(make: Maker, parts: list[Array]) -> Array:
    """Matrices below one another, joined as a stack of them is, so that a stack which is there already serves."""
    depth, width = parts[0].shape
    return make.reshape(many_joined(make, [make.unsqueeze(part, 0) for part in parts], 0), (len(parts) * depth, width))


def flattened(outputs: list[Array]) -> list[Array]:
    """reshape(f(a, b)) -> f(reshape(a), reshape(b)), where nothing else needs f(a, b) and dims are merged.

    An elementwise result under merged dims would have to be stored; what it is made of mostly is stored already.
    """
    order, users = ordered(outputs)
    known = set(outputs)
    read_whole = {arg for array in order if isinstance(array, (External, Take)) for arg in array.args}

    def alone(array: Array) -> bool:
        return len(users[array]) == 1 and array not in known

    changed: dict[Array, Array] = {}
    for array in order:
        if isinstance(array, Reshape) and isinstance(array.args[0], Point) and alone(array.args[0]) and array not in read_whole and array not in known:
            pushed = push(array.args[0], array.shape, alone)
            if pushed is not None:
                changed[array] = pushed
    if not changed:
        return outputs
    done: dict[Array, Array] = {}
    for array in order:
        now = changed.get(array, array)
        stack_ = [(now, False)]
        while stack_:  # what a pushed reshape is made of is new too
            node, ready = stack_.pop()
            if node in done:
                continue
            if not ready and any(arg not in done for arg in node.args):
                stack_.append((node, True))
                stack_ += [(arg, False) for arg in node.args if arg not in done]
                continue
            done[node] = over(node, tuple(done[arg] for arg in node.args))
        done[array] = done[now]
    return [done[output] for output in outputs]


def ordered(outputs: list[Array]) -> tuple[list[Array], dict[Array, set[Array]]]:
    """All arrays, each after what it is made of, and the users of each."""
    users: dict[Array, set[Array]] = {}
    order: list[Array] = []
    seen: set[Array] = set()
    stack: list[tuple[Array, bool]] = [(output, False) for output in outputs]
    while stack:
        array, ready = stack.pop()
        if ready:
            order.append(array)
        elif array not in seen:
            seen.add(array)
            stack.append((array, True))
            for arg in array.args:
                users.setdefault(arg, set()).add(array)
                stack.append((arg, False))
    return order, users


def turned(outputs: list[Array], lanes: int) -> list[Array]:
    """f(x w' + b) v' -> (v f(w x' + b'))', where the results between are needed for nothing else.

    The rows of a layer's weight lie along what is summed, so it would be packed; the result of the layer before need not be, if
    that one is made transposed, with the vectors over the samples.
    """
    order, users = ordered(outputs)
    chosen = {array for array in order if is_small_layer(array, lanes)}
    if not chosen:
        return outputs
    for array in order:
        if isinstance(array, Point) and array.ndim == 2 and all(arg in chosen or same_in_rows(arg, array) for arg in array.args) and any(
                arg in chosen for arg in array.args):
            chosen.add(array)
    known = set(outputs)

    def stays(array: Array) -> bool:
        if array in known or not all(read_turned(user, array) for user in users.get(array, ())):
            return False
        return isinstance(array, External) or all(arg in chosen or same_in_rows(arg, array) for arg in array.args) and any(
            arg in chosen for arg in array.args)

    def read_turned(user: Array, array: Array) -> bool:
        if isinstance(user, External):
            return user.kind == "matmul" and user.ndim == 2 and user.args[0] is array and user.args[1] is not array
        return user in chosen or isinstance(user, Reduce) and user.dims == (1,)

    size = None
    while size != len(chosen):
        size = len(chosen)
        chosen = {array for array in chosen if stays(array)}
    nets: dict[Array, list[Array]] = {}  # what is turned together
    for array in order:
        if array in chosen:
            net = nets[array] = max((nets[arg] for arg in array.args if arg in chosen), key=len, default=[])
            for arg in array.args:
                if arg in chosen and nets[arg] is not net:
                    net += nets[arg]
                    nets.update((member, net) for member in nets[arg])
            net.append(array)
    apart = {id(net): net for net in nets.values()}.values()
    chosen = {array for net in apart if sum(panels_saved(member, chosen) for member in net) > 0 for array in net}
    if not chosen:
        return outputs
    make, done = Maker(), {}
    for array in order:
        if array not in chosen:
            done[array] = over(array, tuple(make.permute(done[arg], [1, 0]) if arg in chosen else done[arg] for arg in array.args))
        elif isinstance(array, External):
            left, right = (done[arg] if arg in chosen else make.permute(done[arg], [1, 0]) for arg in array.args)
            done[array] = External("matmul", (right, left), array.shape[::-1], array.dtype, array.parameters)
        else:
            assert isinstance(array, Point)
            args = [done[arg] if arg in chosen or not arg.ndim else make.reshape(done[arg], (arg.shape[-1], 1)) for arg in array.args]
            done[array] = Point(array.op, tuple(args), array.shape[::-1], array.dtype)
    return [done[output] for output in outputs]


def is_small_layer(array: Array, lanes: int) -> bool:
    """A small product with a weight whose rows lie along the sum, over samples that fill vectors."""
    if not isinstance(array, External) or array.kind != "matmul" or array.ndim != 2 or array.dtype not in ("float32", "float64"):
        return False
    left, right = array.args
    numbers = (*left.shape, *right.shape)
    if not all(type(n) is int for n in numbers) or left.shape[0] % lanes or math.prod(left.shape) * right.shape[1] > SMALL:
        return False
    seen = strided(right)
    return seen is not None and same(seen.strides[0], 1) and not same(seen.strides[1], 1)


def panels_saved(array: Array, chosen: set[Array]) -> int:
    """How many elements less are packed where a layer is turned: those of its weight, not those of its input."""
    if isinstance(array, Point):
        return 0
    left, right = array.args
    seen = strided(left)
    lies = left in chosen or seen is not None and same(seen.strides[0], 1)
    return math.prod(right.shape) - (0 if lies else math.prod(left.shape))


def same_in_rows(arg: Array, array: Array) -> bool:
    """Whether an argument of a matrix is the same in each of its rows."""
    return all(same(n, 1) for n in arg.shape[:-1])


def push(point: Array, shape: tuple[int, ...], alone: Callable[[Array], bool]) -> Array | None:
    """The elementwise array over reshaped arguments; None where one is no product, input or vector."""
    assert isinstance(point, Point)
    blocks = reshape_blocks(point.shape, shape)
    if blocks is None or all(len(left) == 1 for left, _ in blocks):
        return None
    args: list[Array] = []
    for arg in point.args:
        if isinstance(arg, Number) or not arg.ndim:
            args.append(arg)
            continue
        own = (1,) * (point.ndim - arg.ndim) + arg.shape
        wanted = [1] * len(shape)
        for left, right in blocks:
            sizes = [own[i] for i in left]
            if same(sizes, [point.shape[i] for i in left]):
                for i in right:
                    wanted[i] = shape[i]
            elif any(n != 1 for n in sizes):
                return None
        if same(wanted, arg.shape):
            args.append(arg)
            continue
        base = arg
        while isinstance(base, Reshape):
            base = base.args[0]
        moved: Array | None = None
        if same(base.shape, wanted):
            moved = base
        elif isinstance(base, Source):
            moved = restrided(base, tuple(wanted))
        elif isinstance(base, External):
            moved = Reshape(base, tuple(wanted))
        elif base is arg and isinstance(arg, Point) and same(arg.shape, point.shape) and alone(arg):
            moved = push(arg, shape, alone)
        if moved is None:
            return None
        args.append(moved)
    return Point(point.op, tuple(args), shape, point.dtype)


def over(array: Array, args: tuple[Array, ...]) -> Array:
    """The same step over other arguments."""
    if all(a is b for a, b in zip(array.args, args)):
        return array
    if isinstance(array, Point):
        return Point(array.op, args, array.shape, array.dtype)
    if isinstance(array, Reduce):
        return Reduce(array.op, args[0], array.dims, array.dtype)
    if isinstance(array, View):
        return View(args[0], array.shape, array.map)
    if isinstance(array, Reshape):
        return Reshape(args[0], array.shape)
    if isinstance(array, Pad):
        return Pad(args[0], array.before, array.shape)
    if isinstance(array, Take):
        return Take(args[0], args[1], array.dim, array.arg_dims, array.index_dims, array.shape, array.wraps)
    assert isinstance(array, External)
    return External(array.kind, args, array.shape, array.dtype, array.parameters)
