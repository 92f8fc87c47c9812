#include "core/config/run_file.h"

#include <catch2/catch.hpp>
#include <map>

#include "core/config/config_text.h"
#include "core/system/durable_file.h"
#include "tests/data/error_of.h"
#include "tests/temporary_directory.h"

using namespace lockstep;

namespace {

// A directory of run files, and an environment.
struct RunFiles {
  void write(const std::string& name, const std::string& text) {
    make_directories((dir / name).parent_path());
    write_file_durably(dir / name, text);
  }
  ConfigNode read(const std::string& name, const std::vector<std::string>& overrides = {}) {
    return read_run_file(dir / name, overrides, [this](const std::string& variable) {
      const auto found = variables.find(variable);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  }
  std::string error_of_reading(const std::string& name) {
    return error_of([&] { read(name); });
  }

  TemporaryDirectory dir;
  std::map<std::string, std::string> variables = {{"HOME", "/home/ada"}, {"DATA", "/data"}};
};

const ConfigNode& at(const ConfigNode& root, const std::vector<std::string>& path) {
  const auto* node = &root;
  for (const auto& key : path) {
    node = node->find(key);
    REQUIRE(node != nullptr);
  }
  return *node;
}

}  // namespace

TEST_CASE("run file: variables and ~ are expanded in values and overrides") {
  RunFiles files;
  files.write("run.yaml",
              "a: ~/x\nb: \"${DATA}/y-${DATA}\"\nc: [\"~\", a~/b, $DATA]\nd: ~\ne: '$${DATA}'\n");
  const auto root = files.read("run.yaml", {"f=${DATA}/z", "g=~/w"});
  CHECK(at(root, {"a"}).scalar == "/home/ada/x");
  CHECK(at(root, {"b"}).scalar == "/data/y-/data");
  CHECK(at(root, {"c"}).items[0].scalar == "/home/ada");
  CHECK(at(root, {"c"}).items[1].scalar == "a~/b");
  CHECK(at(root, {"c"}).items[2].scalar == "$DATA");
  CHECK(at(root, {"d"}).kind == ConfigNode::Kind::Null);  // YAML's null
  CHECK(at(root, {"e"}).scalar == "${DATA}");
  CHECK(at(root, {"f"}).scalar == "/data/z");
  CHECK(at(root, {"g"}).scalar == "/home/ada/w");
}

TEST_CASE("run file: an error names a variable that is not set") {
  RunFiles files;
  files.write("run.yaml", "a: 1\nb: \"${NOWHERE}/y\"\n");
  CHECK(files.error_of_reading("run.yaml") ==
        "config: " + (files.dir / "run.yaml").string() +
            ":2: the environment variable NOWHERE is not set");
  files.write("run.yaml", "b: \"${DATA\"\n");
  CHECK(files.error_of_reading("run.yaml").ends_with("'${' without '}' in '${DATA'"));
  files.write("run.yaml", "b: \"${1+1}\"\n");
  CHECK(files.error_of_reading("run.yaml").find("'${1+1}' is not the name of") !=
        std::string::npos);
}

TEST_CASE("run file: an error names a variable that is not UTF-8") {
  RunFiles files;
  files.variables["DATA"] = "/caf\xe9";
  files.write("run.yaml", "a: 1\nb: ${DATA}/y\n");
  CHECK(files.error_of_reading("run.yaml") ==
        "config: " + (files.dir / "run.yaml").string() +
            ":2: the environment variable DATA is not UTF-8 text (byte \\xe9)");
}

TEST_CASE("run file: a resolved config with escaped variables is read back unchanged") {
  RunFiles files;
  const Json config = {{"a", "${DATA} $x $${y}"}, {"b", {"${", 1}}};
  files.write("run.yaml", to_yaml(with_escaped_variables(config)));
  const auto root = files.read("run.yaml");
  CHECK(at(root, {"a"}).scalar == "${DATA} $x $${y}");
  CHECK(at(root, {"b"}).items[0].scalar == "${");
}

TEST_CASE("run file: `extends` is relative to the file that contains it") {
  RunFiles files;
  files.write("base/all.yaml",
              "run: {name: base, dir: out}\noptimizer: {name: sgd, momentum: 0.9}\n"
              "data:\n  train: {name: csv, path: a}\n  sizes: [1, 2]\n  batch_size: 8\n");
  files.write("base/more.yaml", "extends: all.yaml\ndata: {train: {path: b}}\n");
  files.write("run.yaml",
              "extends: base/more.yaml\nrun: {name: mine}\noptimizer: {name: adam}\n"
              "data: {sizes: [3], batch_size: null}\n");
  const auto root = files.read("run.yaml", {"data.workers=2"});
  CHECK(root.find("extends") == nullptr);
  CHECK(at(root, {"run", "name"}).scalar == "mine");
  CHECK(at(root, {"run", "dir"}).scalar == "out");
  CHECK(at(root, {"optimizer"}).members.size() == 1);  // another optimizer has other keys
  CHECK(at(root, {"data", "train", "name"}).scalar == "csv");
  CHECK(at(root, {"data", "train", "path"}).scalar == "b");
  CHECK(at(root, {"data", "sizes"}).items.size() == 1);
  CHECK(at(root, {"data", "batch_size"}).kind == ConfigNode::Kind::Null);
  CHECK(at(root, {"data", "workers"}).scalar == "2");
  CHECK(at(root, {"run", "dir"}).origin == (files.dir / "base/all.yaml").string() + ":1");
  CHECK(at(root, {"run", "name"}).origin == (files.dir / "run.yaml").string() + ":2");
}

TEST_CASE("run file: cyclic and missing base files are errors with their line") {
  RunFiles files;
  files.write("a.yaml", "x: 1\nextends: b.yaml\n");
  files.write("b.yaml", "extends: a.yaml\n");
  CHECK(files.error_of_reading("a.yaml") == "config: " + (files.dir / "b.yaml").string() +
                                                ":1: extends: " + (files.dir / "a.yaml").string() +
                                                " extends this file, directly or indirectly");
  files.write("a.yaml", "extends: a.yaml\n");
  CHECK(files.error_of_reading("a.yaml").find("a.yaml:1: extends: ") != std::string::npos);
  files.write("a.yaml", "x: 1\nextends: none.yaml\n");
  const auto missing = files.error_of_reading("a.yaml");
  CHECK(missing.find("a.yaml:2: extends: ") != std::string::npos);
  CHECK(missing.find("none.yaml does not exist; ") != std::string::npos);
  files.write("a.yaml", "extends: [b.yaml]\n");
  CHECK(files.error_of_reading("a.yaml").ends_with(
      "a.yaml:1: extends: expected the path of a run file, got a list of 1"));
}
