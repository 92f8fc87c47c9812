#include "tracking/sinks/mlflow/mlflow_settings.h"

#include <fmt/format.h>

#include "core/http/http_proxies.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

constexpr auto kMlflowTimeout = std::chrono::seconds(30);
constexpr int kMlflowMaxRepeats = 10;

std::string mlflow_variable(const Environment& environment, const char* name) {
  return environment(name).value_or("");
}

std::optional<int> mlflow_number(const Environment& environment, const char* name) {
  const auto text = mlflow_variable(environment, name);
  if (text.empty()) return std::nullopt;
  const auto number = parse_number<int>(text);
  if (!number || *number < 0)
    throw config_error(fmt::format("{}: expected a number, got \"{}\"", name, printable(text)));
  return number;
}

HttpAddress mlflow_address(const MlflowConfig& config, const Environment& environment) {
  const bool configured = config.tracking_uri.has_value();
  const auto uri =
      configured ? config.tracking_uri->text : mlflow_variable(environment, "MLFLOW_TRACKING_URI");
  if (uri.empty())
    throw config_error(
        "mlflow: no server configured; set tracking_uri or the environment variable "
        "MLFLOW_TRACKING_URI");
  auto address =
      parse_http_address(uri, configured ? "mlflow: tracking_uri" : "MLFLOW_TRACKING_URI");
  if (address.path.find('?') != std::string::npos)
    throw config_error("mlflow: the server address must not contain a query");
  return address;
}

// As in MLflow's client, user and password take precedence over a token.
void set_credentials(MlflowSettings& settings, const Environment& environment) {
  const auto user = mlflow_variable(environment, "MLFLOW_TRACKING_USERNAME");
  const auto password = mlflow_variable(environment, "MLFLOW_TRACKING_PASSWORD");
  const auto token = mlflow_variable(environment, "MLFLOW_TRACKING_TOKEN");
  if (!user.empty() && !password.empty()) {
    settings.address.user = user;
    settings.address.password = password;
  } else if (!token.empty()) {
    settings.address.user.clear();
    settings.http.headers["Authorization"] = "Bearer " + token;
  }
}

}  // namespace

MlflowSettings mlflow_settings(const MlflowConfig& config, const Environment& environment) {
  MlflowSettings settings{.address = mlflow_address(config, environment)};
  set_credentials(settings, environment);
  auto& http = settings.http;
  http.name = fmt::format("MLflow at {}{}", settings.address.origin(), settings.address.path);
  http.timeout = kMlflowTimeout;
  if (const auto seconds = mlflow_number(environment, "MLFLOW_HTTP_REQUEST_TIMEOUT");
      seconds && *seconds > 0)
    http.timeout = std::chrono::seconds(*seconds);
  if (config.timeout) http.timeout = config.timeout->value;
  const auto insecure = mlflow_variable(environment, "MLFLOW_TRACKING_INSECURE_TLS");
  http.verify_certificate = !(insecure == "true" || insecure == "True" || insecure == "1");
  http.ca_file = mlflow_variable(environment, "MLFLOW_TRACKING_SERVER_CERT_PATH");
  http.proxy = proxy_for(environment, settings.address);
  const auto repeats = mlflow_number(environment, "MLFLOW_HTTP_REQUEST_MAX_RETRIES");
  settings.repeats = std::min(repeats.value_or(settings.repeats), kMlflowMaxRepeats);

  settings.experiment = config.experiment;
  if (!settings.experiment) settings.experiment = environment("MLFLOW_EXPERIMENT_NAME");
  if (settings.experiment && settings.experiment->empty()) settings.experiment.reset();
  return settings;
}

}  // namespace lockstep::tracking
