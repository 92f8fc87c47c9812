// What passes between a program's loop and the session that trains for it (TrainingLoop).
#pragma once

#include <condition_variable>
#include <exception>
#include <optional>

#include "core/system/mutex.h"
#include "lockstep/batch.h"
#include "lockstep/hook.h"

namespace lockstep::trainer {

// The hook of the session: executes the program's requests between two steps.
//
// Thread: the functions of Hook, attach(), next_samples() and end() belong to the session's thread, the others
// to the program's.
class ProgramFeed final : public Hook {
 public:
  enum class Request { Step, Evaluate, Save, Stop, Fail };

  // Throws Config if the example is not a batch.
  explicit ProgramFeed(Batch example);

  // Executes a request and waits for the next one to be possible. Rethrows what the session failed
  // with.
  void execute(Request request, Batch batch = {});
  // Waits until the session is ready for a request, or has ended. Rethrows as above.
  void wait();

  bool has_ended() const;
  int64_t steps() const;
  int64_t total_steps() const;
  double loss() const;
  EvaluationResult evaluation() const;  // of the last request

  // The session has ended; null: without failure.
  void end(std::exception_ptr failure);

  // The next samples of the step's batch, as many as indices; between steps, those of the example.
  // Throws Config if there are fewer.
  Batch next_samples(std::span<const int64_t> indices);
  // Samples of the example.
  Batch example_of(std::span<const int64_t> indices) const;

  // The session reads from this, in a dataset `program`.
  void attach() { is_attached_ = true; }

  // Throws Config if data.train is not that dataset.
  void before_run(HookContext& run) override;
  void before_step(HookContext& run) override;
  void after_step(HookContext& run) override;

 private:
  Request next_request(HookContext& run);

  const Batch example_;
  // Of the current step; used by the session's thread while the program waits.
  Batch batch_;
  int64_t used_ = 0;  // samples
  bool is_in_step_ = false, is_attached_ = false;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::optional<Request> request_ GUARDED_BY(mutex_);  // not yet begun
  bool is_ready_ GUARDED_BY(mutex_) = false;           // the session waits for a request
  bool has_ended_ GUARDED_BY(mutex_) = false;
  std::exception_ptr failure_ GUARDED_BY(mutex_);
  int64_t steps_ GUARDED_BY(mutex_) = 0, total_steps_ GUARDED_BY(mutex_) = 0;
  at::Tensor loss_ GUARDED_BY(mutex_);
  EvaluationResult evaluation_ GUARDED_BY(mutex_);
};

// While it exists, there is no other in this process: its constructor throws Config.
class OnlySession {
 public:
  OnlySession();
  ~OnlySession();
  OnlySession(const OnlySession&) = delete;
  OnlySession& operator=(const OnlySession&) = delete;
};

// While it exists, the dataset `program` that this thread builds reads from `feed`.
class FeedOfThread {
 public:
  explicit FeedOfThread(ProgramFeed& feed);
  ~FeedOfThread();
  FeedOfThread(const FeedOfThread&) = delete;
  FeedOfThread& operator=(const FeedOfThread&) = delete;
};

}  // namespace lockstep::trainer
