// The C interface (include/lockstep.h): liblockstep.so is this file and the libraries of the trainer.
#include "lockstep.h"

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "lockstep/batch.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"
#include "lockstep/session.h"
#include "lockstep/version.h"

using lockstep::config_error;
using lockstep::printable;

struct lockstep_loop {
  lockstep::Batch example;  // without values: names, types and numbers of dimensions
  std::unique_ptr<lockstep::TrainingLoop> training;
  lockstep::EvaluationResult evaluation;          // the last one
  std::optional<lockstep::SessionResult> result;  // of finish()
};

namespace {

constexpr int32_t kMaxDims = 16;
constexpr const char* kUsage =
    "{PROGRAM, RUN_FILE, [a.b=value ...], [--resume RUN_ID], [--handle-signals]}";

thread_local std::string last_error;

int fail_with(lockstep::ErrorKind kind, std::string message) {
  std::ranges::replace(message, '\n', ' ');
  last_error = std::move(message);
  return static_cast<int>(kind);
}

// The status of `body`, whose exceptions end here.
template <class Body>
int status_of(Body&& body) noexcept {
  last_error.clear();
  try {
    body();
    return LOCKSTEP_OK;
  } catch (const std::exception& error) {
    return fail_with(lockstep::kind_of(error), lockstep::message_of(error));
  } catch (...) {
    return fail_with(lockstep::ErrorKind::Bug, "an exception that is not a std::exception");
  }
}

template <class Pointer>
Pointer& require(Pointer* pointer, const char* function, const char* argument) {
  if (!pointer) throw config_error(fmt::format("{}: {} is NULL", function, argument));
  return *pointer;
}

at::ScalarType scalar_type_of(int32_t dtype, const std::string& field) {
  switch (dtype) {
    case LOCKSTEP_FLOAT32: return at::kFloat;
    case LOCKSTEP_FLOAT64: return at::kDouble;
    case LOCKSTEP_FLOAT16: return at::kHalf;
    case LOCKSTEP_BFLOAT16: return at::kBFloat16;
    case LOCKSTEP_INT64: return at::kLong;
    case LOCKSTEP_INT32: return at::kInt;
    case LOCKSTEP_INT16: return at::kShort;
    case LOCKSTEP_INT8: return at::kChar;
    case LOCKSTEP_UINT8: return at::kByte;
    case LOCKSTEP_BOOL: return at::kBool;
    default:
      throw config_error(fmt::format("{}: dtype is {}; expected a lockstep_dtype, {} to {}", field,
                                     dtype, int{LOCKSTEP_FLOAT32}, int{LOCKSTEP_BOOL}));
  }
}

std::vector<int64_t> sizes_of(const lockstep_array& array, const std::string& field) {
  if (array.num_dims < 1 || array.num_dims > kMaxDims)
    throw config_error(
        fmt::format("{}: num_dims is {}; expected 1 to {}, the first dimension is the sample",
                    field, array.num_dims, kMaxDims));
  const auto* const shape = &require(array.shape, field.c_str(), "shape");
  std::vector<int64_t> sizes(shape, shape + array.num_dims);
  int64_t bytes = 8;  // of the largest element
  for (const auto size : sizes)
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes))
      throw config_error(
          fmt::format("{}: shape is [{}]; expected sizes of at least 0, and an "
                      "array that fits in memory",
                      field, fmt::join(sizes, ", ")));
  return sizes;
}

// A copy: training may read a batch after the call, e.g. while it is copied to a device.
at::Tensor tensor_of(const lockstep_array& array, const std::string& field) {
  const auto sizes = sizes_of(array, field);
  auto tensor = at::empty(sizes, scalar_type_of(array.dtype, field));
  if (tensor.numel() > 0)
    std::memcpy(tensor.mutable_data_ptr(),
                &require(static_cast<const char*>(array.data), field.c_str(), "data"),
                tensor.nbytes());
  return tensor;
}

// `example`: that of the loop; nullptr if this is it.
lockstep::Batch batch_of(const char* function, const lockstep_array* fields, size_t num_fields,
                         const lockstep::Batch* example) {
  if (num_fields > 0) require(fields, function, example ? "fields" : "example");
  lockstep::Batch batch;
  for (size_t i = 0; i < num_fields; ++i) {
    auto field = fmt::format("{}: field {}", function, i);
    std::string name;
    if (fields[i].name)
      name = fields[i].name;
    else if (!example)
      throw config_error(field + " of the example has no name");
    else if (i >= example->fields.size())
      throw config_error(fmt::format("{} has no name, and the example has {} fields", field,
                                     example->fields.size()));
    else
      name = example->fields[i].first;
    field += fmt::format(" '{}'", printable(name));
    const auto* const expected = example ? example->find(name) : nullptr;
    if (example && !expected) {
      std::vector<std::string> names;
      for (const auto& [known, tensor] : example->fields) names.push_back(known);
      throw config_error(field + " is not in the example" + lockstep::suggest(name, names));
    }
    if (batch.find(name)) throw config_error(field + " was passed twice");
    auto tensor = tensor_of(fields[i], field);
    if (expected &&
        (expected->scalar_type() != tensor.scalar_type() || expected->dim() != tensor.dim()))
      throw config_error(fmt::format("{} is {} with {} dimensions, in the example {} with {}",
                                     field, c10::toString(tensor.scalar_type()), tensor.dim(),
                                     c10::toString(expected->scalar_type()), expected->dim()));
    batch.fields.emplace_back(std::move(name), std::move(tensor));
  }
  return batch;
}

// The installed program `lockstep`, which feeds the sinks: ../bin/lockstep of this library. Empty if there
// is none.
std::filesystem::path agent_program() {
  Dl_info library{};
  if (!::dladdr(reinterpret_cast<const void*>(&lockstep_create), &library) || !library.dli_fname)
    return {};
  std::error_code error;
  const auto file = std::filesystem::canonical(library.dli_fname, error);
  const auto program = file.parent_path().parent_path() / "bin" / "lockstep";
  return !error && std::filesystem::exists(program, error) ? program : std::filesystem::path{};
}

lockstep::SessionOptions options_of(int argc, char* const* argv) {
  constexpr const char* kFunction = "lockstep_create";
  require(argv, kFunction, "argv");
  lockstep::SessionOptions options{.ranks = lockstep::read_rank_env(),
                                   .agent_program = agent_program()};
  for (int i = 0; i < argc; ++i)
    options.command.emplace_back(&require(argv[i], kFunction, "an element of argv"));
  std::vector<std::string> positional;
  for (size_t i = 1; i < options.command.size(); ++i) {
    const auto& argument = options.command[i];
    if (argument == "--handle-signals") {
      options.handle_signals = true;
    } else if (argument == "--resume" && i + 1 < options.command.size()) {
      options.resume_id = options.command[++i];
    } else if (argument.starts_with("--resume=")) {
      options.resume_id = argument.substr(argument.find('=') + 1);
    } else if (argument.starts_with("-")) {
      throw config_error(fmt::format("{}: {} '{}' in argv; expected {}", kFunction,
                                     argument == "--resume" ? "no run id after" : "unknown option",
                                     printable(argument), kUsage));
    } else {
      positional.push_back(argument);
    }
  }
  if (positional.empty())
    throw config_error(fmt::format("{}: no run file in argv; expected {}", kFunction, kUsage));
  options.config_path = positional.front();
  options.overrides.assign(positional.begin() + 1, positional.end());
  return options;
}

lockstep_loop& running(lockstep_loop* loop, const char* function) {
  auto& found = require(loop, function, "loop");
  if (found.result)
    throw config_error(fmt::format("{}: lockstep_finish() has ended the run", function));
  return found;
}

}  // namespace

int lockstep_abi_version(void) { return LOCKSTEP_ABI_VERSION; }
const char* lockstep_version(void) { return lockstep::kVersion; }
const char* lockstep_last_error(void) { return last_error.c_str(); }

int lockstep_ranks(int* rank, int* world_size) {
  return status_of([&] {
    const auto ranks = lockstep::read_rank_env();
    if (rank) *rank = ranks.rank;
    if (world_size) *world_size = ranks.world_size;
  });
}

int lockstep_create(int argc, char* const* argv, const lockstep_array* example, size_t num_fields,
                    lockstep_loop** loop) {
  return status_of([&] {
    require(loop, "lockstep_create", "loop") = nullptr;
    const auto options = options_of(argc, argv);
    const auto batch = batch_of("lockstep_create", example, num_fields, nullptr);
    auto made = std::make_unique<lockstep_loop>();
    for (const auto& [name, tensor] : batch.fields)
      made->example.fields.emplace_back(name, tensor.to(at::kMeta));
    made->training = std::make_unique<lockstep::TrainingLoop>(options, batch);
    *loop = made.release();
  });
}

void lockstep_destroy(lockstep_loop* loop) { delete loop; }

int lockstep_is_done(const lockstep_loop* loop) {
  return !loop || loop->result || loop->training->is_done();
}

int64_t lockstep_steps(const lockstep_loop* loop) { return loop ? loop->training->steps() : -1; }

int64_t lockstep_total_steps(const lockstep_loop* loop) {
  return loop ? loop->training->total_steps() : -1;
}

double lockstep_loss(const lockstep_loop* loop) {
  auto loss = std::numeric_limits<double>::quiet_NaN();
  status_of([&] { loss = require(loop, "lockstep_loss", "loop").training->loss(); });
  return loss;
}

int lockstep_step(lockstep_loop* loop, const lockstep_array* fields, size_t num_fields) {
  return status_of([&] {
    auto& checked = running(loop, "lockstep_step");
    checked.training->step(batch_of("lockstep_step", fields, num_fields, &checked.example));
  });
}

int lockstep_evaluate(lockstep_loop* loop) {
  return status_of([&] {
    auto& checked = running(loop, "lockstep_evaluate");
    checked.evaluation = checked.training->evaluate();
  });
}

int lockstep_save(lockstep_loop* loop) {
  return status_of([&] { running(loop, "lockstep_save").training->save(); });
}

int lockstep_finish(lockstep_loop* loop) {
  return status_of([&] {
    auto& checked = running(loop, "lockstep_finish");
    checked.result = checked.training->finish();
    checked.evaluation = checked.result->evaluation;
  });
}

int lockstep_metric(const lockstep_loop* loop, const char* name, double* value) {
  return status_of([&] {
    constexpr const char* kFunction = "lockstep_metric";
    const auto& evaluation = require(loop, kFunction, "loop").evaluation;
    const std::string wanted = &require(name, kFunction, "name");
    auto& target = require(value, kFunction, "value");
    const auto found = evaluation.find(wanted);
    if (found == evaluation.end()) {
      if (evaluation.empty()) throw config_error("lockstep_metric: there was no evaluation");
      std::vector<std::string> names;
      for (const auto& [known, number] : evaluation) names.push_back(known);
      throw config_error(fmt::format("lockstep_metric: the evaluation has no '{}'{}",
                                     printable(wanted), lockstep::suggest(wanted, names)));
    }
    target = found->second;
  });
}

const char* lockstep_metric_name(const lockstep_loop* loop, size_t index) {
  if (!loop || index >= loop->evaluation.size()) return nullptr;
  return std::next(loop->evaluation.begin(), static_cast<std::ptrdiff_t>(index))->first.c_str();
}

const char* lockstep_run_id(const lockstep_loop* loop) {
  return loop && loop->result ? loop->result->run_id.c_str() : "";
}

const char* lockstep_run_dir(const lockstep_loop* loop) {
  return loop && loop->result ? loop->result->run_dir.c_str() : "";
}

const char* lockstep_stop_reason(const lockstep_loop* loop) {
  return loop && loop->result ? loop->result->reason.c_str() : "";
}

int lockstep_stop_signal(const lockstep_loop* loop) {
  return loop && loop->result ? loop->result->signal : 0;
}
