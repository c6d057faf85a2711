"""What the examples in Python share: the library by ctypes. A mistake ends the program with one line, and the exit code of `culm`."""
import ctypes
import os
import sys
from ctypes import Structure, byref, c_char, c_char_p, c_int, c_void_p

try:
    import numpy
except ImportError:
    numpy = None

TEXT = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)  # a function that receives events or warnings


class Error(Structure):
    _fields_ = [("status", c_int), ("text", c_char * 512)]


class Sized(Structure):
    """A structure that begins with its size. Members that a later version has added may be left out at its end."""

    def __init__(self, **members):
        super().__init__(size=ctypes.sizeof(type(self)), **members)


def fail(text):
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr)
    sys.exit(4)


def arguments(names):
    """The arguments of the program, as bytes, and the library, which may be named behind them."""
    count = len(names.split())
    if len(sys.argv) - 1 not in (count, count + 1):
        print(f"usage: {sys.argv[0]} {names} [LIBRARY]", file=sys.stderr)
        sys.exit(2)
    name = sys.argv[count + 1] if len(sys.argv) > count + 1 else "libculm.so.0"
    return *(os.fsencode(text) for text in sys.argv[1:count + 1]), Library(name)


class Library:
    def __init__(self, name):
        if not numpy:
            fail("there is no NumPy; install python3-numpy")
        try:
            self.functions = ctypes.CDLL(name)
        except OSError as why:
            fail(f"{why}; name the library as the last argument")

    def call(self, function, *given, awaited=()):
        """A function that returns a status and fills in an error, which ends the program unless the status is awaited."""
        error = Error()
        status = self.ask(function, c_int, *given, byref(error))
        if status and status not in awaited:
            print(error.text.decode(), file=sys.stderr)
            sys.exit(self.ask("culm_status_exit_code", c_int, status))
        return status

    def ask(self, function, result, *given):
        """Any other function, which returns a `result`."""
        called = getattr(self.functions, function)
        called.restype = result
        return called(*given)

    def free(self, function, handle):
        self.ask(function, None, handle)
