#include "cli/commands.h"
int main(int argc, char** argv) { return lockstep::runs_command(argc, argv); }
