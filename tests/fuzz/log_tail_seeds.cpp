#include "tests/fuzz/seeds.h"

namespace lockstep {

// The first byte: 1 with a rewind, 2 with damage. Then events as in log_tail_fuzz.cpp.
std::vector<std::string> fuzz_seeds() {
  using namespace std::string_literals;
  std::string in_step, a_byte_at_a_time, with_zeros, torn, corrupt;
  for (int i = 0; i < 40; ++i) {
    in_step += "\x00\x60\x09\x0f"s;                    // grow, read
    a_byte_at_a_time += "\x82\x00\x09\x01\x05\x06"s;   // the length last; read, keep, go back
    with_zeros += "\x46\x28\x1e\x09\x04"s;             // grow with zeros, read
    torn += "\x00\x35\x03\x05right\x09\x03\x04\x07"s;  // grow, tear, read, resume, begin again
    corrupt += "\x00\xf0\x08\x02\x05wrong\x09\x08"s;   // grow, damage, read
  }
  return {"\x00"s + in_step, "\x01"s + in_step, "\x00"s + a_byte_at_a_time, "\x00"s + with_zeros,
          "\x00"s + torn,    "\x01"s + torn,    "\x02"s + corrupt};
}

}  // namespace lockstep
