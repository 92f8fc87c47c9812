// What the sinks that send the whole run directory have in common: the collector and buckets.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/sink.h"
#include "tracking/copies/run_sender.h"

namespace lockstep::tracking {

// The first entry sends the whole run directory while it grows, and ends the run there. The others,
// which may be fed on other nodes, send at their end what was written since.
class RunCopySink : public Sink {
 public:
  // `every`: between two times that records are sent; the end of the run does not wait.
  RunCopySink(const SinkContext& context, std::chrono::milliseconds every)
      : run_dir_(context.run_dir), is_first_(context.is_first_entry), every_(every) {}

  bool has_delivered(const RunInfo&) const override { return make_sender()->is_sent(); }
  void run_started(const RunInfo& info, const Json&) override;
  void scalars(const ScalarRow&) override {}
  void run_finished(const RunEnd&) override { is_over_ = true; }
  Json flush() override;

 protected:
  const std::filesystem::path& run_dir() const { return run_dir_; }

 private:
  virtual std::unique_ptr<RunSender> make_sender() const = 0;

  void send_growth();
  void wait_for_other_agents() const;
  std::filesystem::file_time_type last_change() const;

  const std::filesystem::path run_dir_;
  const bool is_first_;
  const std::chrono::milliseconds every_;
  std::unique_ptr<RunSender> sender_;
  std::optional<std::chrono::steady_clock::time_point> sent_at_;
  std::vector<std::filesystem::path> own_logs_;  // of the rank and of its node
  bool is_over_ = false;
};

}  // namespace lockstep::tracking
