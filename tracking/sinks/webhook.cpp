// The webhook sink: posts alerts, and optionally the end of the run, as JSON to a URL. The field
// "text" is compatible with Slack's format.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "core/config/period.h"
#include "core/http/http_client.h"
#include "core/http/http_proxies.h"
#include "core/system/durable_file.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"
#include "lockstep/sink.h"
#include "tracking/http/public_url.h"
#include "tracking/http/retry_later.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

enum class WebhookEvent { Alerts, End };
constexpr auto choices(WebhookEvent) { return std::array{"alerts", "end"}; }

struct WebhookConfig {
  std::optional<PublicUrl> url;
  std::vector<WebhookEvent> events = {WebhookEvent::Alerts};
  std::optional<PublicUrl> dashboard;
  Duration timeout{std::chrono::seconds(10)};
};
template <class V>
void fields(V& v, WebhookConfig& c) {
  v("url", c.url,
    "address to send to; put a secret address in the environment variable "
    "LOCKSTEP_WEBHOOK_URL, which is the default");
  v("events", c.events, "what is sent: alerts, end");
  v("dashboard", c.dashboard,
    "address of the dashboard (`lockstep ui`), such as http://node1:8391, to which messages link");
  v("timeout", c.timeout, "how long to wait for the receiver");
}

HttpAddress webhook_address(const WebhookConfig& config, const Environment& environment) {
  const auto url = config.url ? config.url->text : environment("LOCKSTEP_WEBHOOK_URL").value_or("");
  if (url.empty())
    throw config_error(
        "webhook: no url configured; set url or the environment variable LOCKSTEP_WEBHOOK_URL");
  return parse_http_address(url, config.url ? "webhook: url" : "LOCKSTEP_WEBHOOK_URL");
}

bool webhook_sends(const WebhookConfig& config, WebhookEvent event) {
  return std::ranges::find(config.events, event) != config.events.end();
}

// JSON cannot represent NaN and infinities.
Json webhook_time(double time) { return std::isfinite(time) ? Json(time) : Json(nullptr); }

class WebhookSink final : public Sink {
 public:
  using Config = WebhookConfig;
  WebhookSink(const Config& config, const SinkContext& context)
      : sends_alerts_(webhook_sends(config, WebhookEvent::Alerts)),
        sends_end_(webhook_sends(config, WebhookEvent::End) && context.is_first_entry),
        dashboard_(config.dashboard ? config.dashboard->text : ""),
        run_dir_(context.run_dir),
        address_(webhook_address(config, context.environment)),
        name_("webhook at " + address_.origin()),
        http_(address_, {.name = name_,
                         .timeout = config.timeout.value,
                         .proxy = proxy_for(context.environment, address_)}),
        delivered_file_(context.dir / "delivered.json"),
        count_(context.state.is_object() ? context.state.at("count").get<int64_t>() : 0) {}

  Json destination() const override { return {address_.origin(), address_.path}; }

  void run_started(const RunInfo& info, const Json&) override {
    info_ = info;
    delivered_ = std::max(count_, read_delivered());
  }
  void scalars(const ScalarRow&) override {}

  void alert(const Alert& alert) override {
    if (!sends_alerts_) return;
    const auto where = alert.step ? fmt::format(" (step {})", *alert.step) : "";
    auto message =
        begin("alert", fmt::format("{}: {}: {}\n{}{}", info_.name, level_name(alert.level),
                                   alert.title, alert.text, where));
    message.update({{"level", level_name(alert.level)},
                    {"title", alert.title},
                    {"message", alert.text},
                    {"step", alert.step ? Json(*alert.step) : Json(nullptr)},
                    {"time", webhook_time(alert.time)}});
    pending_.push_back(std::move(message));
  }

  void run_finished(const RunEnd& end) override {
    if (!sends_end_) return;
    const auto job = read_job(run_dir_);
    auto message =
        begin("end", fmt::format("{}: {}{}{}", job ? job->name : info_.name, state_name(end.state),
                                 end.reason.empty() ? "" : ": ", end.reason));
    message.update(
        {{"state", state_name(end.state)}, {"exit", end.exit_code}, {"reason", end.reason}});
    pending_.push_back(std::move(message));
  }

  Json flush() override {
    for (; !pending_.empty(); pending_.pop_front()) {
      if (count_ >= delivered_) deliver(pending_.front());
      ++count_;  // not reached if delivery fails: the same message is sent next
    }
    return {{"count", count_}};
  }

 private:
  // The "id" is stable across retries of the message.
  Json begin(const char* event, const std::string& text) {
    const auto number = count_ + static_cast<int64_t>(pending_.size()) + 1;
    const auto link = link_to_run();
    return {{"text", link.empty() ? text : text + "\n" + link},
            {"link", link.empty() ? Json(nullptr) : Json(link)},
            {"id", fmt::format("{}/{}", info_.id, number)},
            {"event", event},
            {"run",
             {{"id", info_.id},
              {"name", info_.name},
              {"job_id", info_.job_id},
              {"group", info_.group ? Json(*info_.group) : Json(nullptr)},
              {"rank", info_.rank},
              {"host", info_.host}}}};
  }

  std::string link_to_run() const {
    if (dashboard_.empty()) return "";
    const auto end = dashboard_.find_last_not_of('/');
    return fmt::format("{}/#/run/{}", dashboard_.substr(0, end + 1), percent_encoded(info_.job_id));
  }

  void deliver(const Json& message) {
    const auto response =
        http_.post("", message.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (!response.ok()) {
      const auto status = response.status;
      const bool is_temporary = status == 408 || status == 429 || status >= 500;
      const auto problem = fmt::format("{} rejected a message ({})", name_, status);
      if (is_temporary) throw RetryLater(problem, pause_of(response));
      throw config_error(problem);
    }
    // Stored immediately, so that a failure of a later message does not resend this one.
    delivered_ = count_ + 1;
    write_file_durably(delivered_file_, Json{{"count", delivered_}}.dump() + "\n");
  }

  int64_t read_delivered() const {
    std::error_code ignored;
    if (!std::filesystem::exists(delivered_file_, ignored)) return 0;
    const auto json = Json::parse(read_file(delivered_file_), nullptr, false);
    return json.is_object() ? json.value("count", int64_t{0}) : 0;
  }

  const bool sends_alerts_, sends_end_;
  const std::string dashboard_;
  const std::filesystem::path run_dir_;
  const HttpAddress address_;
  const std::string name_;
  HttpClient http_;
  const std::filesystem::path delivered_file_;
  RunInfo info_;
  int64_t count_ = 0;      // messages processed, including those already delivered
  int64_t delivered_ = 0;  // messages accepted by the receiver, also from earlier objects
  std::deque<Json> pending_;
};

REGISTER_SINK("webhook", WebhookSink, "alerts as JSON to an address, such as a chat's");

}  // namespace
}  // namespace lockstep::tracking
