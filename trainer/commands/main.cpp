#include "lockstep/session.h"

int main(int argc, char** argv) { return lockstep::trainer_main(argc, argv); }
