// Runs LLVMFuzzerTestOneInput() without clang, on a deterministic sequence of mutated seeds. With
// clang, -fsanitize=fuzzer replaces this file.
//   Usage: TARGET_fuzz NUM_RUNS [FILE ...]
// With files, runs only those, to reproduce a crash. If the process dies (sanitizer, abort(),
// uncaught exception), the input is written to TARGET_fuzz.crash in the working directory.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "tests/fuzz/mutator.h"
#include "tests/fuzz/seeds.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" void __sanitizer_set_death_callback(void (*callback)());

namespace {

using lockstep::Mutator;

constexpr unsigned kMaxSecondsPerInput = 20;

std::string current_input, crash_path;

// Runs in a signal handler: system calls only.
void save_input() {
  const int fd = ::open(crash_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return;
  if (::write(fd, current_input.data(), current_input.size()) >= 0) ::close(fd);
  std::fprintf(stderr, "the input is in %s (%zu bytes)\n", crash_path.c_str(),
               current_input.size());
}

void save_and_abort(int signal) {
  save_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(std::string input) {
  current_input = std::move(input);
  ::alarm(kMaxSecondsPerInput);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(current_input.data()),
                         current_input.size());
}

std::string content_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run_mutations(long num_runs) {
  const auto seeds = lockstep::fuzz_seeds();
  for (const auto& seed : seeds) run(seed);
  run("");
  Mutator mutator(seeds);
  for (long i = 1; i <= num_runs; ++i) {
    run(mutator.next());
    if (i % 100'000 == 0) std::fprintf(stderr, "%ld runs\n", i);
  }
  std::fprintf(stderr, "%ld runs from %zu seeds, no failure\n", num_runs, seeds.size());
}

}  // namespace

int main(int argc, char** argv) {
  const long num_runs = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 0;
  if (num_runs < 1) {
    std::fprintf(stderr, "usage: %s NUM_RUNS [FILE ...]\n", argv[0]);
    return 64;
  }
  crash_path = std::string(argv[0]).substr(std::string(argv[0]).rfind('/') + 1) + ".crash";
  __sanitizer_set_death_callback(save_input);
  std::signal(SIGABRT, save_and_abort);
  std::signal(SIGALRM, save_and_abort);
  if (argc == 2) run_mutations(num_runs);
  for (int i = 2; i < argc; ++i) run(content_of(argv[i]));
  return 0;
}
