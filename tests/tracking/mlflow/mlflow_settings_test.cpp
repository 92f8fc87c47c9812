#include "tracking/sinks/mlflow/mlflow_settings.h"

#include <catch2/catch.hpp>
#include <map>

#include "lockstep/error.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

using Variables = std::map<std::string, std::string>;

MlflowSettings settings_of(const MlflowConfig& config, const Variables& variables) {
  return mlflow_settings(config, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string config_error_of(const MlflowConfig& config, const Variables& variables) {
  try {
    settings_of(config, variables);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("mlflow settings: the config takes precedence over the environment") {
  const Variables variables = {{"MLFLOW_TRACKING_URI", "http://elsewhere:1"},
                               {"MLFLOW_EXPERIMENT_NAME", "theirs"},
                               {"MLFLOW_HTTP_REQUEST_TIMEOUT", "7"},
                               {"MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3"},
                               {"MLFLOW_TRACKING_INSECURE_TLS", "true"}};
  const auto theirs = settings_of({}, variables);
  CHECK(theirs.address.origin() == "http://elsewhere:1");
  CHECK(theirs.http.name == "MLflow at http://elsewhere:1");
  CHECK(theirs.experiment == "theirs");
  CHECK(theirs.http.timeout == std::chrono::seconds(7));
  CHECK(theirs.repeats == 3);
  CHECK_FALSE(theirs.http.verify_certificate);

  const auto ours = settings_of({.tracking_uri = PublicUrl{"https://here/mlflow/"},
                                 .experiment = "ours",
                                 .timeout = Duration{std::chrono::seconds(2)}},
                                variables);
  CHECK(ours.http.name == "MLflow at https://here:443/mlflow");
  CHECK(ours.experiment == "ours");
  CHECK(ours.http.timeout == std::chrono::seconds(2));

  const auto plain = settings_of({.tracking_uri = PublicUrl{"https://here"}}, {});
  CHECK_FALSE(plain.experiment);
  CHECK(plain.http.timeout == std::chrono::seconds(30));
  CHECK(plain.repeats == 1);
  CHECK(plain.http.verify_certificate);
}

TEST_CASE("mlflow settings: the proxy is that of the environment, except for this host") {
  const Variables variables = {{"HTTPS_PROXY", "http://proxy:3128"}, {"NO_PROXY", "near"}};
  const auto proxy_of = [&](const char* server) {
    return settings_of({.tracking_uri = PublicUrl{server}}, variables).http.proxy;
  };
  REQUIRE(proxy_of("https://far"));
  CHECK(proxy_of("https://far")->host == "proxy");
  for (const auto* server :
       {"https://near", "http://far", "https://localhost", "https://127.0.0.1"})
    CHECK_FALSE(proxy_of(server));
}

TEST_CASE("mlflow settings: credentials") {
  const MlflowConfig config{.tracking_uri = PublicUrl{"http://h"}};
  const auto token = settings_of(config, {{"MLFLOW_TRACKING_TOKEN", "t"}});
  CHECK(token.http.headers.at("Authorization") == "Bearer t");
  const auto both = settings_of(config, {{"MLFLOW_TRACKING_TOKEN", "t"},
                                         {"MLFLOW_TRACKING_USERNAME", "ada"},
                                         {"MLFLOW_TRACKING_PASSWORD", "p"}});
  CHECK(both.http.headers.empty());
  CHECK(both.address.user == "ada");
  CHECK(both.address.password == "p");
  const auto url = settings_of({}, {{"MLFLOW_TRACKING_URI", "http://ada:p@h"}});
  CHECK(url.address.user == "ada");
  CHECK(url.http.name == "MLflow at http://h:80");
}

TEST_CASE("mlflow settings: invalid settings are config errors") {
  CHECK(config_error_of({}, {}) ==
        "mlflow: no server configured; set tracking_uri or the environment variable "
        "MLFLOW_TRACKING_URI");
  CHECK(config_error_of({}, {{"MLFLOW_TRACKING_URI", "sqlite:///secret"}}) ==
        "MLFLOW_TRACKING_URI: neither http:// nor https://; expected http[s]://host[:port][/path]");
  CHECK(config_error_of({.tracking_uri = PublicUrl{"http://h"}},
                        {{"MLFLOW_HTTP_REQUEST_TIMEOUT", "soon"}}) ==
        "MLFLOW_HTTP_REQUEST_TIMEOUT: expected a number, got \"soon\"");
}
