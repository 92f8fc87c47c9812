#include <iostream>

#include "data/tokenize/commands.h"
#include "lockstep/error.h"

int main(int argc, char** argv) {
  try {
    return lockstep::data::data_command({argv + 1, argv + argc}, std::cout);
  } catch (const lockstep::Error& error) {
    std::cerr << "lockstep-data: error: " << error.what() << '\n';
    return error.exit_code();
  }
}
