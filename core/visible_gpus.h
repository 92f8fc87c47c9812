// The value of CUDA_VISIBLE_DEVICES.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// The GPUs that it names: numbers, and names that begin with GPU- or MIG-. As in CUDA, another name
// ends the list, so "", "-1" and "NoDevFiles" name none.
std::vector<std::string> visible_gpus(const std::string& value);

}  // namespace lockstep
