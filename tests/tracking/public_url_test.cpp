#include "tracking/http/public_url.h"

#include <catch2/catch.hpp>

#include "lockstep/error.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

std::string message_of(const std::string& url) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::Scalar;
  node.scalar = url;
  node.origin = "run.yaml:7";
  try {
    return "read: " + ConfigValue<PublicUrl>::read(node, "sinks[0].url").text;
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    return error.what();
  }
}

}  // namespace

TEST_CASE("public url: URLs without a secret are unchanged") {
  for (const std::string url :
       {"http://127.0.0.1:5000", "https://api.wandb.ai", "https://h/mlflow/",
        "http://[::1]:80/a-b/c",
        "https://tracking.lab.example/team-2026/averylongnamewithoutnumbers"})
    CHECK(message_of(url) == "read: " + url);
}

TEST_CASE("public url: a secret is rejected and not shown") {
  const std::string secret = "XyZ12345abcdefgh";
  for (const auto& url :
       {"https://hooks.slack.com/services/T00/B00/" + secret, "https://ada:" + secret + "@host",
        "http://" + secret + "@host", "https://chat/hooks?key=" + secret,
        "https://x/hook/1" + secret + "/end"}) {
    const auto message = message_of(url);
    INFO(message);
    CHECK(message.starts_with("run.yaml:7: sinks[0].url: this address contains a secret"));
    CHECK(message.find("environment variable") != std::string::npos);
    CHECK(message.find(secret) == std::string::npos);
  }
}

TEST_CASE("public url: an invalid URL is a clear error that does not show it") {
  for (const std::string url :
       {"sqlite:///secret", "secret", "http://secret:port", "http://a b/"}) {
    const auto message = message_of(url);
    INFO(message);
    CHECK(message.starts_with("run.yaml:7: sinks[0].url: "));
    CHECK(message.ends_with("; expected http[s]://host[:port][/path]"));
    CHECK(message.find("secret") == std::string::npos);
  }
}
