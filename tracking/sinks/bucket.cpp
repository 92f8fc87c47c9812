// The bucket sink: keeps a copy of the run in an object store (tracking/copies/bucket_sender.h), from
// where `lockstep runs` and the dashboard of another machine read it.
#include <chrono>
#include <memory>

#include "core/config/period.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "lockstep/sink.h"
#include "tracking/copies/bucket_path.h"
#include "tracking/copies/bucket_sender.h"
#include "tracking/copies/run_copy_sink.h"

namespace lockstep::tracking {
namespace {

struct BucketConfig {
  BucketPath path;
  Duration every{std::chrono::seconds(10)};
  Duration timeout{std::chrono::seconds(30)};
};
template <class V>
void fields(V& v, BucketConfig& c) {
  v("path", c.path, "s3://bucket/prefix, or gs:// or abfss://: the run is copied to PREFIX/RUN",
    required());
  v("every", c.every, "how often new records are sent; the end of the run is sent at once");
  v("timeout", c.timeout, "how long a failing request is repeated, before the sink starts again");
}

class BucketSink final : public RunCopySink {
 public:
  using Config = BucketConfig;
  BucketSink(const Config& config, const SinkContext& context)
      : RunCopySink(context, config.every.value),
        config_(config),
        environment_(context.environment) {}

  Json destination() const override { return config_.path.text; }

 private:
  std::unique_ptr<RunSender> make_sender() const override {
    return std::make_unique<BucketSender>(
        run_dir(), open_bucket_folder(config_.path.text, run_dir().filename().string(),
                                      environment_, config_.timeout.value));
  }

  const Config config_;
  const Environment environment_;
};

REGISTER_SINK("bucket", BucketSink, "a copy of the whole run in an object store");

}  // namespace
}  // namespace lockstep::tracking
