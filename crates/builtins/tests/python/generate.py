#!/usr/bin/env python3
"""Writes the table of Python's results that the calculator is compared with.

    python3 crates/builtins/tests/python/generate.py > crates/builtins/tests/python/table.tsv

Each line has an expression, the type of its result (`int`, `float`, `list`, or a kind of
error), the value as Python writes it, and the text that requirement D1 specifies. The same
version of Python writes the same table. Where Pillion intentionally differs from Python, the
line has Pillion's result: ints beyond 64 bits are floats, a tuple is a list, infinity is an
error. Expressions that only Pillion rejects are in `tests/calculator.rs`.
"""

import ast
import math
import random
import sys
import warnings

warnings.simplefilter("ignore", SyntaxWarning)

NAMESPACE = {
    "__builtins__": {},
    "abs": abs, "round": round, "min": min, "max": max, "sum": sum, "pow": pow,
    "sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "tan": math.tan,
    "log": math.log, "log10": math.log10, "pi": math.pi, "e": math.e,
}

BY_HAND = """
2 + 2|10/3|47.50 * 0.15|1234567.891|2 + 2 * (10 / 5)|sqrt(16)|pow(2, 10)|round(3.14159, 2)
2**10|2**3**2|-2**2|2**-1|2**-2**2|(-2)**2|-7//2|-7 % 3|7 % -3|7 // -2|-7 // -2|7.5 // 2|-7.5 // 2
7.5 % -2|-7.5 % 2|-0.5 // 1|1e-300 // -1e300|5 % -5.0|-5.0 % 5|0.0 // -3|-0.0|0.0 * -1|1 - 0.9|0.1 + 0.2
round(2.5)|round(3.5)|round(-2.5)|round(0.5)|round(1.5)|round(2.675, 2)|round(0.125, 2)|round(0.375, 2)
round(1234.5, -2)|round(50.0, -2)|round(150.0, -2)|round(250.0, -2)|round(51.0, -2)|round(-50.0, -2)
round(5e22, -23)|round(5.1e22, -23)|round(0.4, -1)|round(50.5, -2)|round(49.9, -2)|round(1e300, -299)
round(15, -1)|round(25, -1)|round(-15, -1)|round(-25, -1)|round(14, -1)|round(1234, -2)|round(1250, -2)
round(1350, -2)|round(7, 3)|round(7, -1)|round(5, -1)|round(5, -2)|round(9223372036854775807, -1)
round(9223372036854775807, -18)|round(9223372036854775807, -19)|round(-9223372036854775807, -20)
round(1.5, 400)|round(1.5, -400)|round(2.5, 0)|round(1e22)|round(-0.4)|round(1.7e308, -308)|round(123456789.987654321, 5)
log(8,2)|log(e)|log(100, 10)|log10(1000)|log(2)|log(9223372036854775807)|log(0)|log(-1)|log10(0)|log(2, 1)|log(2, 0)|log(1, 1)
sqrt(2)|sqrt(-1)|sin(0)|sin(1)|cos(pi)|tan(pi/4)|tan(pi/2)|sin(1e22)|pi|e|2*pi
pow(2,10,1000)|pow(3, -1, 7)|pow(2, -1, 4)|pow(2, 5, 0)|pow(2, 5, -7)|pow(-3, 5, 7)|pow(7, 0, 1)|pow(0, 0, 5)
pow(9223372036854775807, 9223372036854775807, 9223372036854775783)|pow(2.0, 3, 5)|pow(2, 3)|pow(2, -3)|pow(2.5, 2)
pow(-3, -1, -7)|pow(2, 3, -1)|pow(5, -9223372036854775807, 9223372036854775783)
max([1, 5, 3])|min([1, 5, 3])|max(1, 5, 3)|min((4, 2))|max(2, 2.0)|max(2.0, 2)|min(1, 1.0)|max(-0.0, 0.0)|max(0.0, -0.0)
max(9007199254740993, 9007199254740992.0)|min(9007199254740993, 9007199254740992.0)|max(1e300, 5)|max(5, -1e300)
max(2, 2.5)|max(-2, -2.5)|max([3],)|max([])|min(())|max(3)|min()|sum([1,2,3])|sum((1, 2.5))|sum([])|sum([], 5)|sum([1, 2], 3)
sum([0.1, 0.2, 0.3])|sum([1, 0.1, 2])|sum([9223372036854775807, 1, -1])|sum(5)|sum()|sum([1], 2, 3)|sum([[1]])
abs(-3)|abs(-3.5)|abs(3)|abs([1])|abs()|abs(1, 2)|round()|round(1, 2, 3)|round(1.5, 1.0)|log()|sqrt()|sin(1, 2)|pow(2)
1/0|1//0|1%0|1.0/0|1.0//0|1.0%0|0/0|1/0.0|1/-0.0|0**-1|0.0**-1|0**0|0.0**0|(-8)**(1/3)|(-8)**0.5|(-1)**3|(-1)**-3
(-1)**9223372036854775807|1**9223372036854775807|0**9223372036854775807|(-1)**1000000|2**62|2**63|2**64|2**100|2**1023|10.0**400|2**1024 * 1.0
(-2)**63|(-2)**64|3**39|3**40|7**22|7**23|9223372036854775807|9223372036854775807 + 1|-9223372036854775807 - 1
-9223372036854775807 - 2|9223372036854775807 * 9223372036854775807|9223372036854775807 * -1|3037000500 * 3037000500
9223372036854775807 / 9223372036854775806|9007199254740993 / 3|9007199254740993 / 1|9223372036854775807 / 3|1 / 9223372036854775807
-9223372036854775807 / 7|(-9223372036854775807 - 1) // -1|(-9223372036854775807 - 1) % -1|abs(-9223372036854775807 - 1)
123456789012345678901234567890|-123456789012345678901234567890|1e308 * 10|1e999|-1e999|1e308 + 1e308|1e-400|5e-324|1e-5|0.0001|0.00001234567
100000.5|100001.5|999999.5|999999.4|1e6|1e15|1e16|1e18|1e19|1e20|1e100|123456.7|1234567.8|0.1|100.0|-100.0|1e5 + 0.5
1_000|1_000.5_0|1e1_0|1__0|1_|_1|007|00|0|0_0|007.5|0e5|1.|.5|.|1.e2|1e|1e+|1.2.3|1..2|1 .5|2e3.5|2pi|2 pi
2 +|+ 2|2 + + 2|2 - - 2|2 -+- 2|--2|-+-2|2 * * 2|2 ** * 2|2 // / 2|* 2|2 *|()|(1)|(1,)|(1, 2)|1,|1, 2|,1|,|(,)|[,]|[]|[1]|[1,]|[1,,2]|[1 2]
[1, [2, [3.5]], (4, 5)]|(1|1)|[1|1]|(1]|[1)|max 1|max(1,|max(1 2)|max(1,,2)|max(,)|max([1,2],)|[1+1, 2*3,]
foo|foo + 1|foo(1)|pi2|PI|Sin(1)|len([1])|foo + 1/0|1/0 + foo|pi(2)|e(1)|[1] + 1|1 + [1]|-[1]|+[1]|[1] ** 2|2 ** [1]|[1] / 2|[1] % 2
  1 + 1  |1	+	1|((((1))))|-(-(-1))|2 ** 0.5|(2 ** 0.5) ** 2|1.5e3 ** 2|0.1 ** -3|1e200 ** 2|1e-200 ** 2|-1 ** 0.5
100 - 15 % 4 * 2 // 3 + 7 / 2|1 - 2 - 3|2 / 3 / 4|2 // 3 // 4|7 % 4 % 2|2 * 3 % 4|-3 // 2 * 2|3 - -3|3 -3|3*-3|3**-3|-3**-3|(3, 4,)
"""


class OutOfRange(Exception):
    """An intermediate value is an int beyond 64 bits, for which Pillion uses floats."""


def fits(value):
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def evaluate(expression):
    return eval(expression.strip(" \t"), dict(NAMESPACE))


def check_intermediates(expression):
    tree = ast.parse(expression.strip(" \t"), mode="eval")
    for node in ast.walk(tree.body):
        if node is tree.body or not isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.Name) or isinstance(getattr(node, "ctx", None), ast.Store):
            continue
        value = eval(compile(ast.Expression(node), "", "eval"), dict(NAMESPACE))
        if not fits(value) or isinstance(value, complex):
            raise OutOfRange
        if isinstance(value, float) and not math.isfinite(value):
            raise OutOfRange


def as_pillion(value):
    """Converts Python's value to Pillion's; raises OverflowError if Pillion has no result."""
    if isinstance(value, (list, tuple)):
        return [as_pillion(item) for item in value]
    if isinstance(value, complex):
        raise OverflowError
    value = value if fits(value) else float(value)
    if not math.isfinite(value):
        raise OverflowError
    return value


def text(value):
    if isinstance(value, list):
        return "[" + ", ".join(text(item) for item in value) + "]"
    if isinstance(value, float) and not (value == int(value) and fits(int(value))):
        return f"{value:.6g}"
    return str(int(value))


def line(expression):
    try:
        value = as_pillion(evaluate(expression))
    except SyntaxError:
        return f"{expression}\tinvalid\t\t"
    except NameError:
        return f"{expression}\tunknown\t\t"
    except (ArithmeticError, TypeError, ValueError):
        return f"{expression}\tarithmetic\t\t"
    return f"{expression}\t{type(value).__name__}\t{value!r}\t{text(value)}"


def number(rng):
    kind = rng.randrange(10)
    if kind < 5:
        return str(rng.randrange(100))
    if kind < 7:
        return str(rng.randrange(10 ** rng.randrange(1, 19)))
    if kind < 9:
        return repr(round(rng.uniform(0, 10 ** rng.randrange(0, 6)), rng.randrange(6)))
    return repr(rng.uniform(0, 1) * 10.0 ** rng.randrange(-20, 20))


def items(rng, depth):
    return ", ".join(random_expression(rng, depth) for _ in range(rng.randrange(1, 5)))


def random_expression(rng, depth):
    if depth == 0 or rng.random() < 0.15:
        return number(rng)
    below = depth - 1
    kind = rng.randrange(20)
    if kind < 11:
        operator = rng.choice(["+", "-", "*", "/", "//", "%"])
        space = rng.choice(["", " "])
        left, right = random_expression(rng, below), random_expression(rng, below)
        return f"{left}{space}{operator}{space}{right}"
    if kind < 13:
        return f"({random_expression(rng, below)})"
    if kind < 14:
        return rng.choice("+-") + random_expression(rng, below)
    if kind < 16:
        return f"({random_expression(rng, below)})**{rng.randrange(-5, 9)}"
    if kind < 17:
        return f"round({random_expression(rng, below)}, {rng.randrange(-6, 9)})"
    if kind < 18:
        function = rng.choice(["min", "max", "sum"])
        brackets = rng.choice(["[]", "()"])
        return f"{function}({brackets[0]}{items(rng, below)},{brackets[1]})"
    if kind < 19:
        function = rng.choice(["abs", "round", "sqrt", "sin", "cos", "log", "log10", "tan"])
        return f"{function}({random_expression(rng, below)})"
    return f"{rng.choice(['min', 'max'])}({items(rng, below)}, {number(rng)})"


def by_random(count):
    rng = random.Random(20)
    while count > 0:
        expression = random_expression(rng, rng.randrange(1, 5))
        try:
            check_intermediates(expression)
        except OutOfRange:
            continue
        except (ArithmeticError, TypeError, ValueError):
            pass
        count -= 1
        yield expression


def main():
    out = sys.stdout.write
    out(f"# Python {sys.version.split()[0]}, written by generate.py\n")
    by_hand = [each for row in BY_HAND.strip("\n").split("\n") for each in row.split("|")]
    for expression in [*by_hand, *by_random(1500)]:
        if "\t" not in expression:
            out(line(expression) + "\n")


if __name__ == "__main__":
    main()
