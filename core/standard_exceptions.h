// Code of plugins may throw anything. Handlers of std::exception would miss what is not one.
#pragma once

#include "lockstep/error.h"

namespace lockstep {

// Returns what `work` returns. An exception of it that is not a std::exception becomes a Bug.
template <class Work>
auto with_standard_exceptions(Work&& work) {
  try {
    return work();
  } catch (const std::exception&) {
    throw;
  } catch (...) {
    throw Error(ErrorKind::Bug, "a plugin threw an exception of an unknown type");
  }
}

}  // namespace lockstep
