#include "lockstep/config_node.h"

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "tests/data/error_of.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using Kind = ConfigNode::Kind;

namespace {

ConfigNode parse(const std::string& text) { return parse_config(text, "run.yaml"); }
std::string error_of_text(const std::string& text) {
  return error_of([&] { parse(text); });
}
std::string error_of_override(const std::string& file, const std::string& assignment) {
  auto root = parse(file);
  return error_of([&] { apply_override(root, assignment); });
}

}  // namespace

TEST_CASE("config node: an override without a value is rejected") {
  for (const std::string assignment : {"data.batch_size=", "data.batch_size= "})
    CHECK(error_of_override("", assignment) ==
          "config: argument '" + assignment +
              "': the value is empty (is a shell variable not set?); expected "
              "data.batch_size=VALUE: null only for an optional key, '\"\"' only for a text");
}

TEST_CASE("config node: an error names a line that is indented with a tab") {
  CHECK(error_of_text("a: 1\nb:\n\tc: 2\n")
            .ends_with("; run.yaml:3 is indented with a tab: YAML allows spaces only"));
  CHECK(error_of_text("a: [1\n").find("tab") == std::string::npos);
}

TEST_CASE("config node: a syntax error on a line without a space after the colon says so") {
  CHECK(error_of_text("model: {name: mlp}\nrun:{name: e, seed: 0}\n")
            .ends_with("; write a space after 'run:'"));
  // Noticed at the next key.
  CHECK(error_of_text("model:\n  name: mlp\n  hidden_sizes:[32, 64]\n  bias: true\n")
            .ends_with("; write a space after 'hidden_sizes:'"));
  for (const auto* text : {"a: 1\nb: c: d\n", "run: {name: e, seed: {\n", "a: [1\n", "a: 'x:{\n"}) {
    INFO(text);
    CHECK(error_of_text(text).find("a space after") == std::string::npos);
  }
}

TEST_CASE("config node: maps, lists and scalars have their line numbers") {
  const auto root = parse("run: {name: mnist}\n\nmodel:\n  hidden: [1, 2]\n  bias:\n");
  REQUIRE(root.kind == Kind::Map);
  CHECK(root.find("run")->find("name")->scalar == "mnist");
  CHECK(root.find("run")->find("name")->origin == "run.yaml:1");
  const auto* hidden = root.find("model")->find("hidden");
  REQUIRE(hidden->kind == Kind::List);
  CHECK(hidden->origin == "run.yaml:4");
  CHECK(hidden->items.at(1).scalar == "2");
  CHECK(root.find("model")->find("bias")->kind == Kind::Null);
  CHECK(root.find("model")->find("bias")->origin == "run.yaml:5");
  CHECK(root.find("nothing") == nullptr);
}

TEST_CASE("config node: quoting is recorded") {
  const auto root =
      parse("a: 1\nb: \"1\"\nc: '1'\nd: !!str 1\ne: |\n  1\nf: null\ng: \"null\"\nh: ~\ni: \"\"\n");
  CHECK_FALSE(root.find("a")->quoted);
  for (const auto* key : {"b", "c", "d", "e", "g", "i"}) {
    INFO(key);
    CHECK(root.find(key)->kind == Kind::Scalar);
    CHECK(root.find(key)->quoted);
  }
  CHECK(root.find("f")->kind == Kind::Null);
  CHECK(root.find("h")->kind == Kind::Null);
}

TEST_CASE("config node: block scalars keep their line breaks") {
  CHECK(parse("a: |\n  x\n  y\n").find("a")->scalar == "x\ny\n");
  CHECK(parse("a: |\n  x").find("a")->scalar == "x");
  CHECK(parse("a: |-\n  x\n").find("a")->scalar == "x");
  CHECK(parse("a: |+\n  x\n\n\n").find("a")->scalar == "x\n\n\n");
  CHECK(parse("a: >\n  x\n  y\n\n").find("a")->scalar == "x y\n");
}

TEST_CASE("config node: an empty file is an empty map") {
  for (const std::string text : {"", "\n\n", "# only a comment\n", "---\n", "{}", "\xef\xbb\xbf"}) {
    INFO(text);
    const auto root = parse(text);
    CHECK(root.kind == Kind::Map);
    CHECK(root.members.empty());
    CHECK(root.origin.find(":0") == std::string::npos);
  }
}

TEST_CASE("config node: Windows line ends and a byte order mark have no effect") {
  const auto root = parse(
      "\xef\xbb\xbf"
      "a: x\r\nb:\r\n  c: y\r\n");
  CHECK(root.find("a")->scalar == "x");
  CHECK(root.find("b")->find("c")->scalar == "y");
  CHECK(root.find("b")->find("c")->origin == "run.yaml:3");
}

TEST_CASE("config node: a top level that is not a map is rejected") {
  CHECK(error_of_text("- a\n") == "config: run.yaml: expected a map of 'key: value' lines");
  CHECK(error_of_text("just text") == "config: run.yaml: expected a map of 'key: value' lines");
}

TEST_CASE("config node: a syntax error names its line") {
  CHECK(error_of_text("a: 1\nb: [1, 2\n").starts_with("config: run.yaml:"));
  CHECK(error_of_text("a: 1\nb: c: d\n").starts_with("config: run.yaml:2: not valid YAML: "));
  CHECK(error_of_text("a: 1\nb: *missing\n").starts_with("config: run.yaml:2: not valid YAML: "));
  for (const auto* text :
       {"a: \"open", "a: \"open\n", "a: 'open\nb: 1\n\n", "a: \"open \n ", "a: 'open\r\n"}) {
    INFO(text);
    CHECK(error_of_text(text).find("not valid YAML: illegal EOF in scalar") != std::string::npos);
  }
  CHECK(error_of_text("a:\n\tb: 1\n").starts_with("config: run.yaml:"));
  CHECK(error_of_text("a: @x\n").starts_with("config: run.yaml:1: not valid YAML: "));
}

TEST_CASE("config node: content that would be silently lost or misread is an error") {
  CHECK(error_of_text("a: 1\nb: 2\na: 3\n") == "config: run.yaml:3: duplicate key 'a'");
  CHECK(error_of_text("a: {x: 1, \"x\": 2}") == "config: run.yaml:1: duplicate key 'x'");
  CHECK(error_of_text("a: 1\n---\nb: 2\n") ==
        "config: run.yaml:2: a run file must contain only one YAML document; a second one "
        "starts here");
  CHECK(error_of_text("b: &b {x: 1}\na:\n  <<: *b\n  y: 1\n") ==
        "config: run.yaml:3: merge keys ('<<') are not supported: repeat the keys");
  CHECK(error_of_text("a: !env HOME\n") ==
        "config: run.yaml:1: tag '!env' is not supported: write only the value");
  CHECK(error_of_text("a: !!int \"3\"\n").find("is not supported: write only the value") !=
        std::string::npos);
  CHECK(error_of_text("[1, 2]: x\n") == "config: run.yaml:1: keys must be non-empty plain text");
  CHECK(error_of_text("~: x\n") == "config: run.yaml:1: keys must be non-empty plain text");
  CHECK(error_of_text("\"\": x\n") == "config: run.yaml:1: keys must be non-empty plain text");
}

TEST_CASE("config node: bytes that are not UTF-8 text are an error with their line") {
  CHECK(error_of_text("a: 1\nb: gr\xf6\xdf"
                      "e\n") == "config: run.yaml:2: not UTF-8 text (byte \\xf6)");
  CHECK(error_of_text(std::string("a: 1\nb: x\0y\n", 12)) ==
        "config: run.yaml:2: control character \\x00 is not allowed");
  // 0x04 ends the input for the YAML parser: what follows would be ignored.
  CHECK(error_of_text("a: 1\n\x04\nlr: 3\n") ==
        "config: run.yaml:2: control character \\x04 is not allowed");
  CHECK(error_of_text("a: gr\xc3\xbc\x1b[1m\n") ==
        "config: run.yaml:1: control character \\x1b is not allowed");
  CHECK(error_of_text("a: \x1b\xff\n") == "config: run.yaml:1: not UTF-8 text (byte \\x1b)");
  CHECK(error_of_text("\xff\xfe"
                      "a")
            .starts_with("config: run.yaml:1: not UTF-8 text"));  // UTF-16
  CHECK(error_of_text("a: \"x\\N\"\n") ==
        "config: run.yaml:1: write the escape \\N as \\u0085 and \\_ as \\u00a0");
  CHECK(error_of_text("\"x\\_\": 1\n").find("write the escape") != std::string::npos);
  CHECK(parse("a: \"\\u0085\"\n").find("a")->scalar == "\u0085");
  CHECK(parse("a: größe 模型\n").find("a")->scalar == "größe 模型");
}

TEST_CASE("config node: an alias is a copy of its anchor") {
  const auto root = parse("a: &x {lr: 1}\nb: *x\n");
  CHECK(root.find("b")->find("lr")->scalar == "1");
}

TEST_CASE("config node: malicious files fail quickly and with little memory") {
  std::string bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n";
  for (char name = 'b'; name < 'm'; ++name) {
    bomb.append({name, ':', ' ', '&', name, ' ', '['});
    for (int i = 0; i < 10; ++i) bomb.append({'*', static_cast<char>(name - 1), ' ', ','});
    bomb += "]\n";
  }
  CHECK(error_of_text(bomb).find("more than 100000 values") != std::string::npos);

  auto large = std::string("a: &a \"").append(1'000'000, 'x').append("\"\nb: [*a");
  for (int i = 0; i < 50'000; ++i) large += ",*a";
  CHECK(error_of_text(large.append("]")).find("aliases expand to more than 16 MiB") !=
        std::string::npos);

  CHECK(error_of_text("a: &a [*a, *a]\n").starts_with("config: run.yaml:1: "));
  CHECK(error_of_text(std::string("a: ").append(100, '[').append(100, ']')) ==
        "config: run.yaml:1: nested deeper than 64 levels");
  CHECK(
      error_of_text(std::string("a: ").append(1'000'000, '[')).starts_with("config: run.yaml:1: "));
  CHECK(
      error_of_text(std::string("a: ").append(1'000'000, '{')).starts_with("config: run.yaml:1: "));
  std::string deep = "a:";
  for (int i = 0; i < 100'000; ++i) deep += " -";
  CHECK(error_of_text(deep).starts_with("config: run.yaml:"));
  CHECK(error_of_text(std::string("a: ").append(5 << 20, 'x')) ==
        "config: run.yaml: larger than 4 MiB");
}

TEST_CASE("config node: text after the end of a document is not ignored") {
  // On the first of these YAML::LoadAll() of yaml-cpp 0.7 does not terminate.
  for (const auto* text : {", '-3, clip: null}\nhidden: [256, 128]\n", "{a: 1}}\n",
                           "a: 1\n...\nb: 2\n", "}", "]", ","}) {
    INFO(text);
    CHECK(error_of_text(text).starts_with("config: run.yaml:"));
  }
}

TEST_CASE("config node: the maximum number of keys is read quickly") {
  std::string text;
  for (int i = 0; i < 90'000; ++i) text.append("k").append(std::to_string(i)).append(": 1\n");
  CHECK(parse(text).members.size() == 90'000);
}

TEST_CASE("config node: files that cannot be read are named") {
  const TemporaryDirectory directory;
  const auto path = (directory.path() / "run.yaml").string();
  CHECK(error_of([&] { read_config_file(path); }) ==
        "config: " + path + ": cannot be read: No such file or directory");
  CHECK(error_of([&] { read_config_file(directory.path()); }) ==
        "config: " + directory.path().string() + ": is a directory, not a run file");
  write_file_durably(path, "a: [");
  CHECK(error_of([&] { read_config_file(path); }).starts_with("config: " + path + ":"));
  write_file_durably(path, std::string(5 << 20, 'x'));
  CHECK(error_of([&] { read_config_file(path); }) == "config: " + path + ": larger than 4 MiB");
  write_file_durably(path, "lr: 1\n");
  CHECK(read_config_file(path).find("lr")->origin == path + ":1");
}

TEST_CASE("override: sets, adds and replaces values, and records their origin") {
  auto root = parse("optimizer: {name: sgd, lr: 0.1}\nrun:\n");
  apply_override(root, "optimizer.lr=0.5");
  CHECK(root.find("optimizer")->find("lr")->scalar == "0.5");
  CHECK(root.find("optimizer")->find("lr")->origin == "argument 'optimizer.lr=0.5'");
  CHECK(root.find("optimizer")->find("name")->scalar == "sgd");
  apply_override(root, "run.name=a=b");  // through a null, and only the first '=' counts
  CHECK(root.find("run")->find("name")->scalar == "a=b");
  apply_override(root, "data.train.path=x");
  CHECK(root.find("data")->find("train")->find("path")->scalar == "x");
  apply_override(root, "optimizer={name: adamw}");
  CHECK(root.find("optimizer")->find("lr") == nullptr);
  apply_override(root, "model.hidden=[1, 2, 3]");
  CHECK(root.find("model")->find("hidden")->items.size() == 3);
  apply_override(root, "run.name=null");
  CHECK(root.find("run")->find("name")->kind == Kind::Null);
  apply_override(root, "run.name=\"\"");
  CHECK(root.find("run")->find("name")->kind == Kind::Scalar);
}

TEST_CASE("override: the last one wins") {
  auto root = parse("");
  apply_override(root, "a.b=1");
  apply_override(root, "a.b=2");
  CHECK(root.find("a")->find("b")->scalar == "2");
  CHECK(root.find("a")->members.size() == 1);
}

TEST_CASE("override: a comment in the value is rejected, unless it is quoted") {
  CHECK(error_of_override("", "run.name=exp #3") ==
        "config: argument 'run.name=exp #3': '#' begins a comment; quote the value: "
        "run.name='\"...\"'");
  CHECK(error_of_override("", "a=#42").ends_with("quote the value: a='\"...\"'"));
  auto root = parse_config("", "test");
  apply_override(root, "a='exp #3'");
  apply_override(root, "b=a#b");
}

TEST_CASE("override: text that YAML reads as nothing is rejected, unless it is null") {
  for (const std::string text : {"%5", "!5", "&5", "---", "...", "--- "})
    CHECK(error_of_override("a: 1", "a=" + text) ==
          "config: argument 'a=" + text +
              "': YAML reads this value as nothing; quote it: a='\"...\"'");
  for (const std::string text : {"null", "Null", "NULL", "~", " ~ "}) {
    auto root = parse("a: 1");
    apply_override(root, "a=" + text);
    CHECK(root.find("a")->kind == Kind::Null);
  }
}

TEST_CASE("override: an error quotes an override that cannot be applied") {
  CHECK(error_of_override("", "lr") == "config: argument 'lr': expected key.subkey=value");
  CHECK(error_of_override("", "=1") == "config: argument '=1': expected key.subkey=value");
  CHECK(error_of_override("", "") == "config: argument '': expected key.subkey=value");
  CHECK(error_of_override("", "a..b=1") == "config: argument 'a..b=1': 'a..b' has an empty key");
  CHECK(error_of_override("", ".a=1") == "config: argument '.a=1': '.a' has an empty key");
  CHECK(error_of_override("", "a.=1") == "config: argument 'a.=1': 'a.' has an empty key");
  CHECK(error_of_override("a: {b: 3}", "a.b.c=1") ==
        "config: argument 'a.b.c=1': 'a.b' is not a map and has no member 'c'");
  CHECK(error_of_override("a: [1]", "a.0=1") ==
        "config: argument 'a.0=1': 'a' is not a map and has no member '0'");
  CHECK(error_of_override("", "a=[1").starts_with("config: argument 'a=[1': not valid YAML: "));
  CHECK(error_of_override("", "a={x: 1, x: 2}") ==
        "config: argument 'a={x: 1, x: 2}': duplicate key 'x'");
  CHECK(error_of_override("", "a=\xff") ==
        "config: argument 'a=\\xff': not UTF-8 text (byte \\xff)");
}

TEST_CASE("override: a malicious override yields one short error line") {
  const auto many = error_of_override("", std::string("a=").append(100'000, '['));
  CHECK(many.size() < 300);
  std::string deep = "a";
  for (int i = 0; i < 60'000; ++i) deep += ".a";
  CHECK(error_of_override("", deep.append("=1")).ends_with("': nested deeper than 64 levels"));
  CHECK(error_of_override("", "a\nb").find('\n') == std::string::npos);
  auto root = parse("");
  std::string list = "a=[1";
  for (int i = 0; i < 50'000; ++i) list += ",1";
  apply_override(root, list.append("]"));
  CHECK(root.find("a")->items.size() == 50'001);
  CHECK(root.find("a")->items.back().origin.size() < 100);
}
