"""Rows of large arrays are asked for before they are read (data/row_prefetch.h). g++ has left those instructions out before,
without a word and at three times the time, so they are looked for where they must be (LOCKSTEP_DATA_LIBRARY)."""
import os
import platform
import re
import subprocess

import pytest

ASKING = ["IdxDataset::fill", "ArrayDataset::gather", "gather_rows", "TokensDataset::fill"]


def functions_that_ask(listing):
    """Names of the functions with a prefetch, in the output of `objdump -d -C`."""
    found, name = set(), None
    for line in listing:
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            name = head.group(1)
        elif "\tprefetch" in line:
            found.add(name)
    return found


@pytest.mark.skipif(platform.machine() != "x86_64", reason="knows the instructions of x86_64 only")
def test_rows_are_asked_for_ahead():
    command = ["objdump", "-d", "-C", "--no-show-raw-insn", os.environ["LOCKSTEP_DATA_LIBRARY"]]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = functions_that_ask(listing.splitlines())
    for name in ASKING:
        assert any(name in function for function in found), f"{name} asks for no row ahead"


def test_an_instruction_is_found_in_its_function():
    listing = ["0000 <a::f()>:", "   0:\tmov    %rax,%rbx", "0010 <a::g(int)>:", "  10:\tprefetcht0 (%rcx)"]
    assert functions_that_ask(listing) == {"a::g(int)"}
