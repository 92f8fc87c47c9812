// The seeds of each fuzz target, defined in TARGET_seeds.cpp.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Valid inputs of the target, created by the code that writes such files if it exists. At least
// one.
std::vector<std::string> fuzz_seeds();

}  // namespace lockstep
