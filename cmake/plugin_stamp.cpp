// Compiled into every plugin. The program reads these bytes from the file before it runs any of its
// code.
#ifdef LOCKSTEP_WITHOUT_TORCH
#define TORCH_VERSION "none"
#else
#include <torch/version.h>
#endif

#include "core/config/plugin.h"

#define LOCKSTEP_TEXT_OF(value) #value
#define LOCKSTEP_TEXT(value) LOCKSTEP_TEXT_OF(value)

static_assert(lockstep::kPluginInterface == 3, "the text below says 3");

extern "C" __attribute__((used, visibility("default"))) const char lockstep_plugin_stamp[] =
    "lockstep-plugin-stamp{interface=3 torch=" TORCH_VERSION
    " cxx11_abi=" LOCKSTEP_TEXT(_GLIBCXX_USE_CXX11_ABI) "}";
