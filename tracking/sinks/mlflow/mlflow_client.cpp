#include "tracking/sinks/mlflow/mlflow_client.h"

#include <fmt/format.h>

#include "core/printable.h"
#include "lockstep/error.h"
#include "tracking/http/retry_later.h"

namespace lockstep::tracking {
namespace {

constexpr auto kMlflowApi = "/api/2.0/mlflow/";
constexpr auto kMlflowArtifactApi = "/api/2.0/mlflow-artifacts/artifacts/";
constexpr std::string_view kMlflowArtifactScheme = "mlflow-artifacts:";
constexpr size_t kMlflowMessageBytes = 300;
constexpr int kMlflowRunsPerPage = 1000;

std::string mlflow_member(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) && json[name].is_string()
             ? json[name].get<std::string>()
             : "";
}

Json mlflow_object(const Json& json, const char* name) {
  return json.is_object() && json.contains(name) && json[name].is_object() ? json[name]
                                                                           : Json::object();
}

std::map<std::string, std::string> pairs_of(const Json& data, const char* name) {
  std::map<std::string, std::string> pairs;
  if (!data.contains(name) || !data[name].is_array()) return pairs;
  for (const auto& pair : data[name])
    pairs[mlflow_member(pair, "key")] = mlflow_member(pair, "value");
  return pairs;
}

MlflowRun run_of(const Json& json) {
  const auto info = mlflow_object(json, "info");
  const auto data = mlflow_object(json, "data");
  return {.id = mlflow_member(info, "run_id"),
          .artifact_uri = mlflow_member(info, "artifact_uri"),
          .status = mlflow_member(info, "status"),
          .params = pairs_of(data, "params"),
          .tags = pairs_of(data, "tags")};
}

std::string filter_of(const MlflowTags& tags) {
  std::string filter;
  for (const auto& [key, value] : tags) {
    std::string quoted;
    for (const char c : value) quoted += c == '\'' ? "''" : std::string(1, c);
    filter += fmt::format("{}tags.`{}` = '{}'", filter.empty() ? "" : " AND ", key, quoted);
  }
  return filter;
}

bool is_retryable(int status) {
  constexpr int kNotImplemented = 501;
  return status == 408 || status == 429 || (status >= 500 && status != kNotImplemented);
}

}  // namespace

MlflowClient::MlflowClient(const MlflowSettings& settings)
    : name_(settings.http.name),
      authority_(settings.address.origin().substr(settings.address.origin().find("://") + 3)),
      repeats_(settings.repeats),
      timeout_(settings.http.timeout),
      http_(settings.address, settings.http) {}

HttpResponse MlflowClient::send(const Send& request, int repeats) {
  const auto began = std::chrono::steady_clock::now();
  for (int repeat = 0;; ++repeat) {
    const auto is_last = [&] {
      return repeat >= repeats || std::chrono::steady_clock::now() - began >= timeout_;
    };
    try {
      const auto response = request();
      if (response.status == 401 || response.status == 403)
        throw config_error(
            fmt::format("{} rejected the credentials ({}): check MLFLOW_TRACKING_TOKEN, or "
                        "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
                        name_, response.status));
      if (!is_retryable(response.status)) return response;
      throw RetryLater(fmt::format("{} is temporarily unavailable ({})", name_, response.status),
                       pause_of(response));
    } catch (const RetryLater& busy) {
      if (is_last() || busy.pause().count() > 0) throw;
    } catch (const Error& error) {
      if (is_last() || error.kind() != ErrorKind::Environment) throw;
    }
  }
}

MlflowClient::Response MlflowClient::call(const Send& request, int repeats) {
  const auto sent = send(request, repeats);
  Response response{.status = sent.status, .json = Json::parse(sent.body, nullptr, false)};
  response.code = mlflow_member(response.json, "error_code");
  response.message = printable(mlflow_member(response.json, "message"), kMlflowMessageBytes);
  const bool is_ok = sent.ok();
  if (response.json.is_object() && (is_ok || !response.code.empty())) return response;
  throw config_error(fmt::format("{}: not an MLflow server (status {})", name_, sent.status));
}

MlflowClient::Response MlflowClient::get(const std::string& path) {
  return call([&] { return http_.get(kMlflowApi + path); }, repeats_);
}

MlflowClient::Response MlflowClient::post(const std::string& path, const Json& body,
                                          bool can_repeat) {
  const auto text = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return call([&] { return http_.post(kMlflowApi + path, text); }, can_repeat ? repeats_ : 0);
}

Json MlflowClient::expect(Response response, const std::string& what) const {
  if (!response.code.empty())
    throw config_error(fmt::format("{}: {}: {}: {}", name_, what, response.code, response.message));
  return std::move(response.json);
}

std::string MlflowClient::experiment_id(const Json& response, const std::string& name) const {
  const auto experiment = mlflow_object(response, "experiment");
  if (mlflow_member(experiment, "lifecycle_stage") == "deleted")
    throw config_error(
        fmt::format("{}: the experiment \"{}\" was deleted; restore it or choose another", name_,
                    printable(name)));
  return mlflow_member(experiment, "experiment_id");
}

std::string MlflowClient::experiment(const std::string& name) {
  const auto by_name = "experiments/get-by-name?experiment_name=" + percent_encoded(name);
  const auto what = fmt::format("the experiment \"{}\"", printable(name));
  auto found = get(by_name);
  if (found.code != "RESOURCE_DOES_NOT_EXIST")
    return experiment_id(expect(std::move(found), what), name);
  auto created = post("experiments/create", {{"name", name}});
  if (created.code == "RESOURCE_ALREADY_EXISTS")
    return experiment_id(expect(get(by_name), what), name);
  return mlflow_member(expect(std::move(created), what), "experiment_id");
}

std::vector<MlflowRun> MlflowClient::runs_with(const std::string& experiment,
                                               const MlflowTags& tags) {
  std::vector<MlflowRun> runs;
  Json query = {{"experiment_ids", Json::array({experiment})},
                {"filter", filter_of(tags)},
                {"run_view_type", "ACTIVE_ONLY"},
                {"max_results", kMlflowRunsPerPage},
                {"order_by", Json::array({"attributes.start_time ASC"})}};
  while (true) {
    const auto page = expect(post("runs/search", query), "searching runs");
    if (page.contains("runs") && page["runs"].is_array())
      for (const auto& run : page["runs"]) runs.push_back(run_of(run));
    const auto next = mlflow_member(page, "next_page_token");
    if (next.empty()) return runs;
    query["page_token"] = next;
  }
}

std::optional<MlflowRun> MlflowClient::run(const std::string& id) {
  auto response = get("runs/get?run_id=" + percent_encoded(id));
  if (response.code == "RESOURCE_DOES_NOT_EXIST") return std::nullopt;
  const auto run = mlflow_object(expect(std::move(response), "the run " + id), "run");
  if (mlflow_member(mlflow_object(run, "info"), "lifecycle_stage") == "deleted")
    return std::nullopt;
  return run_of(run);
}

MlflowRun MlflowClient::create_run(const std::string& experiment, const std::string& name,
                                   int64_t start_ms, const MlflowTags& tags) {
  auto list = Json::array();
  for (const auto& [key, value] : tags) list.push_back({{"key", key}, {"value", value}});
  const Json body = {{"experiment_id", experiment},
                     {"run_name", name},
                     {"start_time", start_ms},
                     {"tags", std::move(list)}};
  const auto response = expect(post("runs/create", body, false), "creating a run");
  return run_of(mlflow_object(response, "run"));
}

void MlflowClient::set_status(const std::string& run, const char* status,
                              std::optional<int64_t> end_ms) {
  Json body = {{"run_id", run}, {"status", status}};
  if (end_ms) body["end_time"] = *end_ms;
  expect(post("runs/update", body), "the status of run " + run);
}

void MlflowClient::set_tag(const std::string& run, const std::string& key,
                           const std::string& value) {
  expect(post("runs/set-tag", {{"run_id", run}, {"key", key}, {"value", value}}),
         "a tag of run " + run);
}

bool MlflowClient::log_batch(const std::string& body) {
  auto response =
      call([&] { return http_.post(std::string(kMlflowApi) + "runs/log-batch", body); }, repeats_);
  if (response.status == 400 || response.status == 413) return false;
  expect(std::move(response), "logging");
  return true;
}

std::optional<std::string> MlflowClient::put(
    const MlflowRun& run, const std::string& path,
    const std::function<HttpResponse(const std::string&)>& request) {
  std::string_view root = run.artifact_uri;
  if (!root.starts_with(kMlflowArtifactScheme))
    return fmt::format(
        "this server stores artifacts at {}..., to which only MLflow's client can upload",
        root.substr(0, root.find(':') + 1));
  root.remove_prefix(kMlflowArtifactScheme.size());
  if (root.starts_with("//")) {
    root.remove_prefix(2);
    const auto host = root.substr(0, root.find('/'));
    if (host != authority_) return "this server stores artifacts on another server";
    root.remove_prefix(host.size());
  }
  while (root.starts_with('/')) root.remove_prefix(1);
  const auto target =
      kMlflowArtifactApi + percent_encoded(root, true) + "/" + percent_encoded(path, true);
  const auto response = send([&] { return request(target); }, repeats_);
  if (response.ok()) return std::nullopt;
  return fmt::format("the server returned status {}", response.status);
}

std::optional<std::string> MlflowClient::put_artifact(const MlflowRun& run, const std::string& path,
                                                      const std::string& content,
                                                      const std::string& type) {
  return put(run, path,
             [&](const std::string& target) { return http_.put(target, content, type); });
}

std::optional<std::string> MlflowClient::put_artifact(const MlflowRun& run, const std::string& path,
                                                      const std::filesystem::path& file) {
  return put(run, path, [&](const std::string& target) { return http_.put_file(target, file); });
}

}  // namespace lockstep::tracking
