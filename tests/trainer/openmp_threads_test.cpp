#include "trainer/prepared/openmp_threads.h"

#include <ATen/Parallel.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/failing_calls.h"
#include "tests/temporary_directory.h"
#include "trainer/prepared/prepared_run.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

// Restores the number of threads that LibTorch computes with.
class ThreadsOfLibTorch {
 public:
  explicit ThreadsOfLibTorch(int count) : before_(at::get_num_threads()) {
    at::set_num_threads(count);
  }
  ~ThreadsOfLibTorch() { at::set_num_threads(before_); }

 private:
  int before_;
};

// What `body` throws where no thread can be started.
template <class Body>
std::string failure_without_new_threads(const Body& body) {
  const auto error = without_new_threads(body);
  if (!error) return "no seccomp filter: not tested";
  if (!*error) return "none";
  try {
    std::rethrow_exception(*error);
  } catch (const std::exception& thrown) {
    return std::string(kind_name(kind_of(thrown))) + ": " + message_of(thrown);
  }
}

constexpr const char* kNoThread =
    "environment: cannot start a thread: Resource temporarily unavailable; ";

auto count_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE("OpenMP threads: one that cannot be started is an error that names the limit") {
  const ThreadsOfLibTorch several(3);
  CHECK_THAT(failure_without_new_threads(start_openmp_threads),
             Catch::StartsWith(kNoThread) || Catch::StartsWith("no seccomp filter"));
}

TEST_CASE("OpenMP threads: they are started before data and model are built") {
  const ThreadsOfLibTorch several(3);
  const TemporaryDirectory directory;
  write_file_durably(directory / "run.yaml", R"(
model: {name: mlp, inputs: 3, classes: 2}
data:
  train:
    name: synthetic
    samples: 64
    fields: {image: {shape: [3]}, label: {dtype: int64, values: uniform, high: 2}}
optimizer: {name: sgd, lr: 0.1}
)");
  const auto config = load_run_config(directory / "run.yaml", {});
  CHECK_THAT(failure_without_new_threads([&] { prepare_data(config, {}); }),
             Catch::StartsWith(kNoThread) || Catch::StartsWith("no seccomp filter"));
  CHECK_THAT(failure_without_new_threads([&] { prepare_training(config, {}); }),
             Catch::StartsWith(kNoThread) || Catch::StartsWith("no seccomp filter"));
}

TEST_CASE("OpenMP threads: they stay, the trial's threads do not; one thread needs none") {
  const ThreadsOfLibTorch several(3);
  const auto before = count_threads();
  start_openmp_threads();
  CHECK(count_threads() <= before + 2);  // fewer, if OpenMP has started some earlier
  const auto started = count_threads();
  start_openmp_threads();
  CHECK(count_threads() == started);
  const ThreadsOfLibTorch one(1);
  CHECK((failure_without_new_threads(start_openmp_threads) == "none" ||
         failure_without_new_threads(start_openmp_threads).starts_with("no seccomp")));
}
