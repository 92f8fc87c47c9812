// The Sobol sequence: points that fill a cube evenly. Direction numbers: Joe and Kuo, "Constructing
// Sobol sequences with better two-dimensional projections" (SIAM J. Sci. Comput. 2008), file
// new-joe-kuo-6.21201. Order of the points: Gray code, as in SciPy and PyTorch.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::sweep {

inline constexpr int kSobolDimensions = 32;

// Point `index` (from 0) in [0, 1)^dimensions, shifted by a random number of `seed` per dimension
// (exclusive or of the bits); seed 0: not shifted. At most kSobolDimensions, and 2^32 points.
std::vector<double> sobol_point(uint32_t index, int dimensions, uint64_t seed);

}  // namespace lockstep::sweep
