// Compiled into every plugin. The program reads these bytes from the file before it runs any of its
// code.
#ifdef LOCKSTEP_WITHOUT_TORCH
#define TORCH_VERSION "none"
#else
#include <torch/version.h>
#endif

#include <string>  // for _GLIBCXX_USE_CXX11_ABI

#include <lockstep/version.h>

#define LOCKSTEP_TEXT_OF(value) #value
#define LOCKSTEP_TEXT(value) LOCKSTEP_TEXT_OF(value)

extern "C" __attribute__((used, visibility("default"))) const char lockstep_plugin_stamp[] =
    "lockstep-plugin-stamp{interface=" LOCKSTEP_TEXT(
        LOCKSTEP_PLUGIN_INTERFACE) " torch=" TORCH_VERSION
                                   " cxx11_abi=" LOCKSTEP_TEXT(_GLIBCXX_USE_CXX11_ABI) "}";
