#include "trainer/program_feed.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <atomic>
#include <limits>

#include "lockstep/dataset.h"
#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

thread_local ProgramFeed* feed_of_thread = nullptr;
std::atomic<bool> has_session = false;

at::Tensor indices_tensor(std::span<const int64_t> indices) {
  return at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::kLong);
}

// The common first dimension of the fields.
int64_t samples_of(const Batch& batch) {
  if (batch.fields.empty()) throw config_error("TrainingLoop: the batch has no fields");
  std::optional<int64_t> samples;
  for (const auto& [name, tensor] : batch.fields) {
    if (!tensor.defined() || tensor.dim() == 0)
      throw config_error(
          fmt::format("TrainingLoop: field '{}' of the batch: expected a tensor whose first "
                      "dimension is the sample",
                      name));
    if (samples.value_or(tensor.size(0)) != tensor.size(0))
      throw config_error(fmt::format(
          "TrainingLoop: field '{}' of the batch has {} samples, the fields before it {}", name,
          tensor.size(0), *samples));
    samples = tensor.size(0);
  }
  return *samples;
}

struct ProgramDataConfig {
  int64_t samples = int64_t{1} << 40;
};

template <class V>
void fields(V& v, ProgramDataConfig& c) {
  v("samples", c.samples,
    "samples of an epoch; the default, 2^40, is one endless epoch: set train.max_steps",
    at_least(1));
}

class ProgramData final : public Dataset {
 public:
  using Config = ProgramDataConfig;
  explicit ProgramData(const Config& config) : config_(config), feed_(feed_of_thread) {
    if (!feed_)
      throw config_error(
          "data.train: dataset 'program' gets its samples from a program that trains with "
          "lockstep::TrainingLoop: run that program instead of this command");
    feed_->attach();
  }

  int64_t size() const override { return config_.samples; }
  Batch get_batch(std::span<const int64_t> indices) const override {
    return feed_->example_of(indices);
  }
  Batch get_samples(const SampleRequest& request) const override {
    return feed_->next_samples(request.indices);
  }

 private:
  Config config_;
  ProgramFeed* feed_;
};

REGISTER_DATASET("program", ProgramData,
                 "the batches that a program passes to lockstep::TrainingLoop");

}  // namespace

OnlySession::OnlySession() {
  if (has_session.exchange(true))
    throw config_error(
        "TrainingLoop: this process has another one, which has not ended: end it first");
}
OnlySession::~OnlySession() { has_session = false; }

FeedOfThread::FeedOfThread(ProgramFeed& feed) { feed_of_thread = &feed; }
FeedOfThread::~FeedOfThread() { feed_of_thread = nullptr; }

ProgramFeed::ProgramFeed(Batch example) : example_(std::move(example)) {
  if (samples_of(example_) == 0)
    throw config_error("TrainingLoop: the example of a batch has no samples");
}

void ProgramFeed::execute(Request request, Batch batch) {
  {
    MutexLock lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    if (has_ended_) throw config_error("TrainingLoop: the training has ended: see is_done()");
    batch_ = std::move(batch);
    used_ = 0;
    request_ = request;
    is_ready_ = false;
  }
  changed_.notify_all();
  wait();
}

void ProgramFeed::wait() {
  MutexLock lock(mutex_);
  changed_.wait(lock.native(), [this]() REQUIRES(mutex_) { return is_ready_ || has_ended_; });
  if (failure_) std::rethrow_exception(failure_);
}

bool ProgramFeed::has_ended() const {
  MutexLock lock(mutex_);
  return has_ended_;
}

int64_t ProgramFeed::steps() const {
  MutexLock lock(mutex_);
  return steps_;
}

int64_t ProgramFeed::total_steps() const {
  MutexLock lock(mutex_);
  return total_steps_;
}

double ProgramFeed::loss() const {
  MutexLock lock(mutex_);
  return loss_.defined() ? loss_.item<double>() : std::numeric_limits<double>::quiet_NaN();
}

EvaluationResult ProgramFeed::evaluation() const {
  MutexLock lock(mutex_);
  return evaluation_;
}

void ProgramFeed::end(std::exception_ptr failure) {
  {
    MutexLock lock(mutex_);
    has_ended_ = true;
    failure_ = std::move(failure);
  }
  changed_.notify_all();
}

Batch ProgramFeed::next_samples(std::span<const int64_t> indices) {
  if (!is_in_step_) return example_of(indices);  // the model is tried
  const auto count = static_cast<int64_t>(indices.size());
  const auto available = samples_of(batch_);
  if (used_ + count > available)
    throw config_error(
        fmt::format("TrainingLoop: the batch has {} samples on this rank, a step needs at least {} "
                    "(data.batch_size, train.accumulate)",
                    available, used_ + count));
  Batch batch{.fields = {}, .indices = indices_tensor(indices)};
  for (const auto& [name, tensor] : batch_.fields)
    batch.fields.emplace_back(name, tensor.narrow(0, used_, count));
  used_ += count;
  return batch;
}

Batch ProgramFeed::example_of(std::span<const int64_t> indices) const {
  const auto available = samples_of(example_);
  const auto rows = indices_tensor(indices).remainder(available);
  Batch batch{.fields = {}, .indices = indices_tensor(indices)};
  for (const auto& [name, tensor] : example_.fields)
    batch.fields.emplace_back(name, tensor.index_select(0, rows.to(tensor.device())));
  return batch;
}

// Waits until the program has one.
ProgramFeed::Request ProgramFeed::next_request(HookContext& run) {
  MutexLock lock(mutex_);
  steps_ = run.step;
  total_steps_ = run.total_steps;
  is_ready_ = true;
  changed_.notify_all();
  changed_.wait(lock.native(), [this]() REQUIRES(mutex_) { return request_.has_value(); });
  return *std::exchange(request_, std::nullopt);
}

void ProgramFeed::before_run(HookContext& /*run*/) {
  if (!is_attached_)
    throw config_error(
        "data.train: expected the dataset 'program', which has the batches that the program passes "
        "to its TrainingLoop");
}

void ProgramFeed::before_step(HookContext& run) {
  for (;;) switch (next_request(run)) {
      case Request::Step: is_in_step_ = true; return;
      case Request::Evaluate: {
        const auto result = run.evaluate();
        MutexLock lock(mutex_);
        evaluation_ = result;
        break;
      }
      case Request::Save: run.save(); break;
      case Request::Stop: run.stop_now = "the program ended its loop"; return;
      case Request::Fail:
        throw environment_error("the program left its training loop without finish()");
    }
}

void ProgramFeed::after_step(HookContext& run) {
  is_in_step_ = false;
  if (const auto given = samples_of(batch_); used_ < given)
    throw config_error(fmt::format(
        "TrainingLoop: the batch has {} samples on this rank, a step needs {} (data.batch_size, "
        "train.accumulate)",
        given, used_));
  MutexLock lock(mutex_);
  loss_ = run.loss;
  steps_ = run.step;
}

}  // namespace lockstep::trainer
