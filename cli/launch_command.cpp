#include "cli/commands.h"

namespace lockstep {
int launch_command(int, char**) { return 70; }
}  // namespace lockstep
