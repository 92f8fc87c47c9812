// A minimal plugin: a stamp, if STAMP is defined, and an initializer with a visible effect.
#ifdef STAMP
extern "C" __attribute__((used, visibility("default"))) const char lockstep_plugin_stamp[] =
    "lockstep-plugin-stamp{" STAMP "}";
#endif

namespace {
int forty_two() { return 42; }
}  // namespace

extern "C" __attribute__((visibility("default"))) int lockstep_plugin_initialized;
int lockstep_plugin_initialized = forty_two();
