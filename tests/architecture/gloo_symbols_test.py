"""The wheel ships gloo's code without its headers. Ours are Debian's, of another version: our object may use gloo's
types by pointer only, so it must define no symbol of gloo (LOCKSTEP_GLOO_OBJECT names the object). Exempt is the type
information of gloo::Exception, by which exceptions are sorted: it is the same in all versions, a class derived from
std::runtime_error."""
import os
import re
import subprocess

DEFINED = "TtVvWwBbDdRrGgSsuAi"
EXEMPT = {"typeinfo for gloo::Exception", "typeinfo name for gloo::Exception"}


def gloo_symbols(listing):
    """Symbols of gloo itself that an object defines, in the output of `nm -C`."""
    lines = (re.match(r"\s*[0-9a-f]*\s+(\w)\s+(.*)", line) for line in listing.splitlines())
    return [line.group(2) for line in lines if line and line.group(1) in DEFINED and line.group(2) not in EXEMPT
            and re.match(r"(vtable for |typeinfo (name )?for |VTT for |guard variable for |non-virtual thunk to )?gloo::",
                         line.group(2))]


def test_our_object_defines_no_symbol_of_gloo():
    path = os.environ["LOCKSTEP_GLOO_OBJECT"]
    listing = subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout
    assert "ProcessGroupGloo" in listing, f"{path} is not the object that uses gloo"
    assert gloo_symbols(listing) == []


def test_a_defined_symbol_is_found_and_a_used_one_is_not():
    assert gloo_symbols("0000 V vtable for gloo::Context\n") == ["vtable for gloo::Context"]
    assert gloo_symbols("0010 W gloo::Context::~Context()\n") == ["gloo::Context::~Context()"]
    assert gloo_symbols("0010 T gloo::barrier(gloo::BarrierOptions&)\n")
    assert gloo_symbols("0010 u typeinfo for gloo::IoException\n")
    assert not gloo_symbols("0010 V typeinfo for gloo::Exception\n0018 V typeinfo name for gloo::Exception\n")
    assert not gloo_symbols("                 U gloo::Context::Context(int)\n")
    assert not gloo_symbols("0000 W std::shared_ptr<gloo::transport::Device>::~shared_ptr()\n")
    assert not gloo_symbols("0000 T lockstep::make_gloo(int)\n")
