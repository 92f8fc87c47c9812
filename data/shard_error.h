// The error of a whole shard, such as a corrupt archive.
#pragma once

#include <string>

#include "lockstep/error.h"

namespace lockstep::data {

// A Config error that ends the run also where single bad samples are skipped.
class ShardError : public Error {
 public:
  explicit ShardError(const std::string& message) : Error(ErrorKind::Config, message) {}
};

}  // namespace lockstep::data
