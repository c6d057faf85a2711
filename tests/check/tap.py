"""Cases in Python, told as TAP."""
import sys

cases = []


def case(function):
    cases.append(function)


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def main():
    print(f"1..{len(cases)}")
    failed = 0
    for number, function in enumerate(cases, 1):
        try:
            function()
            print(f"ok {number} - {function.__name__}")
        except AssertionError as problem:
            failed += 1
            print(f"not ok {number} - {function.__name__}")
            print("\n".join("# " + line for line in str(problem).splitlines()))
    sys.exit(1 if failed else 0)
