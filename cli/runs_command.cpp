#include "cli/commands.h"

namespace lockstep {
int runs_command(int, char**) { return 70; }
}  // namespace lockstep
