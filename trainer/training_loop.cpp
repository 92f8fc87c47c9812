// TrainingLoop.
#include "lockstep/session.h"

#include <thread>
#include <utility>

#include "lockstep/batch.h"
#include "lockstep/error.h"
#include "trainer/program_feed.h"

namespace lockstep {

using trainer::ProgramFeed;

// The session, in its own thread.
class TrainingLoop::Session {
 public:
  Session(SessionOptions options, const Batch& example)
      : options_(std::move(options)), feed_(std::make_shared<ProgramFeed>(example)) {
    // The program determines the order, and a batch is read when the program has passed it.
    options_.overrides.insert(options_.overrides.end(), {"data.workers=0", "data.shuffle=false"});
    options_.hooks.push_back(feed_);
    thread_ = std::thread([this] { run(); });
  }

  ~Session() {
    if (!thread_.joinable()) return;
    try {
      feed_->execute(ProgramFeed::Request::Fail);
    } catch (...) {
      // The run has recorded it.
    }
    thread_.join();
  }

  ProgramFeed& feed() { return *feed_; }

  SessionResult finish() {
    check(thread_.joinable(), "TrainingLoop::finish() was called twice");
    if (!feed_->has_ended()) feed_->execute(ProgramFeed::Request::Stop);
    feed_->wait();
    thread_.join();
    return result_;
  }

 private:
  void run() {
    const trainer::FeedOfThread scope(*feed_);
    try {
      {
        const trainer::OnlySession only;
        result_ = run_session(options_);
      }
      feed_->end(nullptr);
    } catch (...) {
      feed_->end(std::current_exception());
    }
  }

  SessionOptions options_;
  std::shared_ptr<ProgramFeed> feed_;
  SessionResult result_;  // valid when the thread has ended
  std::thread thread_;
};

TrainingLoop::TrainingLoop(const SessionOptions& options, const Batch& example) {
  if (options.ranks.group_fd)
    throw config_error(
        "TrainingLoop: the ranks of a program with its own loop cannot continue without one of "
        "them: "
        "remove --on-rank-loss continue");
  session_ = std::make_unique<Session>(options, example);
  session_->feed().wait();
}

TrainingLoop::~TrainingLoop() = default;

bool TrainingLoop::is_done() const { return session_->feed().has_ended(); }
int64_t TrainingLoop::steps() const { return session_->feed().steps(); }
int64_t TrainingLoop::total_steps() const { return session_->feed().total_steps(); }

void TrainingLoop::step(Batch batch) {
  session_->feed().execute(ProgramFeed::Request::Step, std::move(batch));
}

double TrainingLoop::loss() const { return session_->feed().loss(); }

EvaluationResult TrainingLoop::evaluate() {
  session_->feed().execute(ProgramFeed::Request::Evaluate);
  return session_->feed().evaluation();
}

void TrainingLoop::save() { session_->feed().execute(ProgramFeed::Request::Save); }

SessionResult TrainingLoop::finish() { return session_->finish(); }

}  // namespace lockstep
