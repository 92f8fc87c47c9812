// The keys that may follow a run file on a command line, such as optimizer.lr.
#pragma once

#include <string>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep::cli {

struct RunFileKey {
  std::string name;                  // "optimizer.lr"
  std::string help;                  // one line
  std::vector<std::string> choices;  // its values, if they are a fixed list
};

// Every key of a JSON Schema of the run file, of all parts that a section may select. Sorted.
std::vector<RunFileKey> keys_of_schema(const Json& schema);

}  // namespace lockstep::cli
