// The exception of an operation as text for comparisons: "config: the message".
#pragma once

#include <string>

#include "lockstep/error.h"

namespace lockstep {

template <class Operation>
std::string error_of(Operation&& operation) {
  try {
    operation();
  } catch (const Error& error) {
    return std::string(kind_name(error.kind())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace lockstep
