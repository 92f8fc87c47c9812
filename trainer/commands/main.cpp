#include "launch/environment/torch_folder.h"
#include "lockstep/session.h"

int main(int argc, char** argv) {
  lockstep::launch::restore_library_path();
  return lockstep::trainer_main(argc, argv);
}
