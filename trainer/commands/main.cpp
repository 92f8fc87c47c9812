#include "trainer/commands/trainer_main.h"

int main(int argc, char** argv) { return lockstep::trainer_main(argc, argv); }
