// What each fuzz target begins with, in TARGET_seeds.cpp.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// Valid inputs of the target, made by the code that writes such files where there is one. At least
// one.
std::vector<std::string> fuzz_seeds();

}  // namespace lockstep
