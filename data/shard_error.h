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

// Returns act(), which uses a shard. A Config error becomes a ShardError.
template <class Act>
auto of_shard(const Act& act) {
  try {
    return act();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) throw;
    throw ShardError(error.what());
  }
}

// Whether the error is about single samples, which can be skipped: not a bug, a bad shard, or
// storage that fails or changes during the run.
inline bool is_of_samples(const Error& error) {
  return error.kind() == ErrorKind::Config && !dynamic_cast<const ShardError*>(&error);
}

}  // namespace lockstep::data
