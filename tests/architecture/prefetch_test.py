"""Rows of large arrays are prefetched (data/row_prefetch.h). g++ once removed the prefetch instructions silently, which made
reading three times slower, so this test looks for them in the compiled library (LOCKSTEP_DATA_LIBRARY)."""
import os
import platform
import re
import subprocess

import pytest

PREFETCHING = ["IdxDataset::fill", "ArrayDataset::gather", "gather_rows", "TokensDataset::fill"]


def functions_with_prefetch(listing):
    """Names of the functions with a prefetch, in the output of `objdump -d -C`."""
    found, name = set(), None
    for line in listing:
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            name = head.group(1)
        elif "\tprefetch" in line:
            found.add(name)
    return found


@pytest.mark.skipif(platform.machine() != "x86_64", reason="recognizes only x86-64 instructions")
def test_rows_are_prefetched():
    command = ["objdump", "-d", "-C", "--no-show-raw-insn", os.environ["LOCKSTEP_DATA_LIBRARY"]]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = functions_with_prefetch(listing.splitlines())
    for name in PREFETCHING:
        assert any(name in function for function in found), f"{name} prefetches no rows"


def test_an_instruction_is_found_in_its_function():
    listing = ["0000 <a::f()>:", "   0:\tmov    %rax,%rbx", "0010 <a::g(int)>:", "  10:\tprefetcht0 (%rcx)"]
    assert functions_with_prefetch(listing) == {"a::g(int)"}
