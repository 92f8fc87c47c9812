// The command line of a trainer. A program with parts of its own (registered in its source) is
//   int main(int argc, char** argv) { return lockstep::trainer_main(argc, argv); }
#pragma once

namespace lockstep {

// Runs `PROGRAM CONFIG [a.b=value ...] [--resume ID]`, --inspect-data, --schema, --help or
// --version. Prints errors as one line on stderr and, for the launcher, into its error file.
// Returns the exit code (core/error.h); after a failed run it ends the process itself, since peers
// that are gone could hold up an orderly teardown.
int trainer_main(int argc, char** argv);

}  // namespace lockstep
