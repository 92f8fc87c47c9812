// Compares a space with the schema of run files, so that a wrong key is found before any trial.
#pragma once

#include "sweep/space.h"

namespace lockstep::sweep {

// `schema`: of `lockstep schema`. `run`: the run file that the trials change. Parts (`optimizer`, ...)
// are those that the run file or the space names. Throws Config for a key that the run file cannot
// have, suggesting the nearest, and for a value that the key cannot have.
void verify_keys(const Space& space, const Json& schema, const Json& run);

}  // namespace lockstep::sweep
