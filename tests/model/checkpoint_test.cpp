// Whole checkpoint directories: what opens, what it holds, and how each kind of damage is named.
#include "kime/model/checkpoint.h"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/checkpoint_writer.h"

namespace {

namespace fs = std::filesystem;
using kime::Checkpoint;
using kime::DType;
using kime::ErrorKind;
using kime::test::TempDir;
using kime::test::TestModel;
using kime::test::TestTensor;
using kime::test::write_file;
using nlohmann::json;

float decode(DType dtype, const std::byte* at) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, at, kime::size_of(dtype));
  if (dtype == DType::f16) {
    const auto sign = (bits & 0x8000U) << 16U;
    return (bits & 0x7fffU) == 0 ? std::bit_cast<float>(sign) : std::bit_cast<float>(sign | ((bits & 0x7fffU) << 13U) + (112U << 23U));
  }
  return std::bit_cast<float>(dtype == DType::bf16 ? bits << 16U : bits);
}

std::vector<float> read_values(const Checkpoint& checkpoint, std::size_t index) {
  std::size_t count = 1;
  for (const auto extent : checkpoint.shape(index)) {
    count *= extent;
  }
  const auto size = kime::size_of(checkpoint.dtype(index));
  std::vector<std::byte> bytes(count * size);
  const auto status = checkpoint.read(index, 0, bytes);
  REQUIRE(status);
  std::vector<float> result;
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back(decode(checkpoint.dtype(index), bytes.data() + i * size));
  }
  return result;
}

TEST_CASE("random checkpoints are read back, in any element type, naming and number of shards") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const TempDir dir;
    const auto model = kime::test::random_model(seed);
    kime::test::write_checkpoint(dir.path(), model);
    const auto opened = Checkpoint::open(dir.path());
    if (!opened) {
      FAIL(opened.error().text());
    }
    std::map<std::string, std::vector<float>> want;
    for (auto& tensor : model.tensors()) {
      want[tensor.name] = tensor.values;
    }
    const auto specs = kime::expected_tensors(opened->config());
    REQUIRE(opened->size() == specs.size());
    REQUIRE(opened->size() == want.size());
    std::uint64_t parameters = 0;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      CHECK(opened->name(i) == specs[i].name);
      CHECK(kime::to_string(opened->dtype(i)) == model.dtype);
      CHECK(read_values(*opened, i) == want[specs[i].name]);
      parameters += want[specs[i].name].size();
    }
    CHECK(opened->parameters() == parameters);
    CHECK(opened->weight_bytes() == parameters * (model.dtype == "F32" ? 4 : 2));
    CHECK(opened->weight_files().size() == model.shards);
    CHECK(opened->config().theta_full == model.theta_full);
    CHECK(opened->config().theta_local == model.theta_local);
    CHECK(opened->config().layers.size() == model.full_layers.size());
  }
}

TEST_CASE("the parity sets and the demo open") {
  struct Known {
    const char* path;
    const char* dtype;
    std::size_t files;
    std::size_t layers;
    std::size_t head_layers;
    std::size_t window;
    float theta_local;
  };
  const auto known = GENERATE(values<Known>({{"demo", "F16", 1, 4, 2, 64, 10000},
                                             {"parity/plain-f16", "F16", 1, 4, 2, 16, 10000},
                                             {"parity/oldnames-f16", "F16", 1, 4, 2, 16, 160000},
                                             {"parity/nohead-f32", "F32", 1, 3, 0, 6, 10000},
                                             {"parity/loud-bf16-sharded", "BF16", 3, 5, 2, 10, 10000},
                                             {"parity/long-f16", "F16", 1, 3, 2, 128, 10000}}));
  INFO(known.path);
  const auto path = std::string(KIME_TESTDATA "/") + known.path;
  const auto opened = Checkpoint::open(path + "//");
  if (!opened) {
    FAIL(opened.error().text());
  }
  CHECK(opened->directory() == path);
  CHECK(opened->weight_files().size() == known.files);
  CHECK(opened->config().layers.size() == known.layers);
  CHECK(opened->config().head_layers == known.head_layers);
  CHECK(opened->config().window == known.window);
  CHECK(opened->config().theta_local == known.theta_local);
  const auto counts = opened->parameters_by_dtype();
  for (const auto dtype : {DType::f32, DType::f16, DType::bf16}) {
    CHECK((counts[static_cast<std::size_t>(dtype)] == opened->parameters()) == (kime::to_string(dtype) == known.dtype));
  }
  for (std::size_t i = 0; i < opened->size(); ++i) {
    const auto weights = read_values(*opened, i);
    CHECK(std::all_of(weights.begin(), weights.end(), [](float value) { return std::isfinite(value); }));
  }
}

// A directory with the default model, opened after a change.
struct Broken {
  TempDir dir;
  TestModel model;

  explicit Broken(std::size_t shards = 1) {
    model.shards = shards;
    kime::test::write_checkpoint(dir.path(), model);
  }
  [[nodiscard]] std::string at(const std::string& name) const { return dir.path() + "/" + name; }
  [[nodiscard]] kime::Error error() const {
    const auto opened = Checkpoint::open(dir.path());
    REQUIRE_FALSE(opened);
    return opened.error();
  }
  void write_tensors(const std::vector<TestTensor>& tensors) const {
    write_file(at("model.safetensors"), kime::test::safetensors_file(tensors, "F32"));
  }
  void change_index(const std::function<void(json&)>& change) const {
    auto index = json::parse(kime::test::read_file(at("model.safetensors.index.json")));
    change(index);
    write_file(at("model.safetensors.index.json"), index.dump());
  }
};

TEST_CASE("what is not there is named, with what should be") {
  const Broken broken;
  const auto& path = broken.dir.path();
  const std::string expected = "; expected a checkpoint directory, with rl_agent_config.json, encoder/config.json and model.safetensors";
  CHECK(Checkpoint::open(path + "/no").error().message() == path + "/no: No such file or directory" + expected);
  CHECK(Checkpoint::open("").error().message() == ": No such file or directory" + expected);
  const auto file = path + "/model.safetensors";
  CHECK(Checkpoint::open(file).error().message() == file + ": not a directory" + expected);

  fs::remove(file);
  CHECK(broken.error().message() == path + ": no model.safetensors and no model.safetensors.index.json; a checkpoint has one of them");
  fs::create_directory(file);
  CHECK(broken.error().message() == file + ": a directory; expected a file");
  fs::remove(path + "/rl_agent_config.json");
  CHECK(broken.error().message() == path + ": no rl_agent_config.json" + expected);
  fs::remove_all(path + "/encoder");
  CHECK(broken.error().message() == path + ": no encoder/config.json" + expected);
  CHECK(broken.error().kind() == ErrorKind::input);
}

TEST_CASE("errors of the parts come with their files") {
  const Broken broken;
  write_file(broken.at("model.safetensors"), kime::test::safetensors_file(R"({"x": 1})", ""));
  CHECK(broken.error().message() == broken.at("model.safetensors") + ": tensor x: 1; expected an object");
  auto agent = broken.model.agent_config();
  agent["option_layout"] = "parallel";
  write_file(broken.at("rl_agent_config.json"), agent.dump());
  CHECK(broken.error().text() ==
        "unsupported: " + broken.at("rl_agent_config.json") + ": option_layout is \"parallel\"; kime runs sequential");
  write_file(broken.at("encoder/config.json"), "{");
  CHECK_THAT(broken.error().message(), Catch::StartsWith(broken.at("encoder/config.json") + ": line 1, column 2: "));
}

TEST_CASE("every missing, extra and misshapen tensor stands in one error") {
  const Broken broken;
  auto tensors = broken.model.tensors();
  std::erase_if(tensors,
                [](const TestTensor& tensor) { return tensor.name == "scorer.1.bias" || tensor.name == "encoder.layers.2.mlp.Wi.weight"; });
  for (auto& tensor : tensors) {
    if (tensor.name == "type_emb.weight") {
      tensor.shape = {16, 3};
    } else if (tensor.name == "scorer.3.weight") {
      tensor.shape = {16};
    }
  }
  tensors.push_back({.name = "encoder.layers.0.attn_norm.weight", .shape = {1}, .values = {1}});
  tensors.push_back({.name = "decoder\n", .shape = {}, .values = {1}});
  broken.write_tensors(tensors);
  CHECK(broken.error().message() ==
        broken.dir.path() +
            ": 2 tensors are missing: encoder.layers.2.mlp.Wi.weight, scorer.1.bias; "
            "2 tensors are not of this model: \"decoder\\n\", encoder.layers.0.attn_norm.weight; "
            "2 tensors have a wrong shape: type_emb.weight [16, 3], expected [3, 16], scorer.3.weight [16], expected [1, 16]");
  CHECK(broken.error().kind() == ErrorKind::input);
}

TEST_CASE("a file with no tensors lacks them all") {
  const Broken broken;
  broken.write_tensors({});
  const auto message = broken.error().message();
  for (const auto& tensor : broken.model.tensors()) {
    CHECK_THAT(message, Catch::Contains(tensor.name));
  }
}

TEST_CASE("a tensor of temperatures is accepted and ignored, if it has three") {
  const Broken broken;
  auto tensors = broken.model.tensors();
  tensors.push_back({.name = "temperature", .shape = {3}, .values = {4, 4, 4}});
  broken.write_tensors(tensors);
  const auto opened = Checkpoint::open(broken.dir.path());
  REQUIRE(opened);
  CHECK(opened->size() == tensors.size() - 1);
  CHECK(opened->calibration().by_type == std::array<double, 3>{1, 1, 1});

  tensors.back() = {.name = "temperature", .shape = {1, 3}, .values = {1, 1, 1}};
  broken.write_tensors(tensors);
  CHECK(broken.error().message() == broken.dir.path() + ": 1 tensor has a wrong shape: temperature [1, 3], expected [3]");
}

TEST_CASE("other element types are refused by name") {
  const Broken broken;
  auto file = kime::test::read_file(broken.at("model.safetensors"));
  const std::string f32 = R"("dtype":"F32")";
  const std::string i32 = R"("dtype":"I32")";
  const auto tensor = file.find("\"scorer.3.bias\"");
  const auto at = file.find(f32, tensor);
  REQUIRE(at != std::string::npos);
  file.replace(at, f32.size(), i32);
  write_file(broken.at("model.safetensors"), file);
  CHECK(broken.error().kind() == ErrorKind::unsupported);
  CHECK(broken.error().message() ==
        broken.dir.path() + ": 1 tensor is neither F32, F16 nor BF16: scorer.3.bias (I32 in " + broken.at("model.safetensors") + ")");
}

TEST_CASE("a truncated file is named at every length") {
  const Broken broken;
  const auto whole = kime::test::read_file(broken.at("model.safetensors"));
  for (const std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    write_file(broken.at("model.safetensors"), whole.substr(0, length));
    CHECK_THAT(broken.error().message(), Catch::StartsWith(broken.at("model.safetensors") + ": "));
  }
}

TEST_CASE("one file of weights goes before an index") {
  const Broken broken;
  write_file(broken.at("model.safetensors.index.json"), "not looked at");
  CHECK(Checkpoint::open(broken.dir.path()));
}

struct IndexLie {
  const char* title;
  std::function<void(json&)> change;
  std::string message;  // with DIR for the directory
};

TEST_CASE("an index that lies") {
  const std::string one = "model-00001-of-00002.safetensors";
  const std::string two = "model-00002-of-00002.safetensors";
  const std::string outside =
      "DIR/model.safetensors.index.json: weight_map has \"NAME\" for tensor scorer.3.bias; "
      "expected the name of a file in the same directory";
  const auto named = [](const std::string& name) { return [name](json& index) { index["weight_map"]["scorer.3.bias"] = name; }; };
  const auto lie = GENERATE_COPY(values<IndexLie>({
      {"../up", named("../x.safetensors"), outside},
      {"/absolute", named("/etc/passwd"), outside},
      {"sub/folder", named("encoder/config.json"), outside},
      {"..", named(".."), outside},
      {".", named("."), outside},
      {"empty", named(""), outside},
      {"NUL", named(std::string("x\0y", 3)), outside},
      {"number", [](json& index) { index["weight_map"]["scorer.3.bias"] = 5; },
       "DIR/model.safetensors.index.json: weight_map has 5 for tensor scorer.3.bias; expected the name of a file"},
      {"no map", [](json& index) { index.erase("weight_map"); },
       "DIR/model.safetensors.index.json: no weight_map; expected an object from tensors to files"},
      {"list", [](json& index) { index = json::array(); },
       "DIR/model.safetensors.index.json: no weight_map; expected an object from tensors to files"},
      {"map of another type", [](json& index) { index["weight_map"] = {1}; },
       "DIR/model.safetensors.index.json: weight_map is [1]; expected an object from tensors to files"},
      {"empty map", [](json& index) { index["weight_map"] = json::object(); }, "DIR/model.safetensors.index.json: weight_map is empty"},
      {"missing shard",
       [two](json& index) {
         for (auto& shard : index["weight_map"]) {
           shard = shard == two ? "model-3.safetensors" : shard;
         }
       },
       "DIR/model-3.safetensors: No such file or directory"},
      {"tensor that the shard lacks", [two](json& index) { index["weight_map"]["ghost"] = two; },
       "DIR/model.safetensors.index.json: weight_map has tensor ghost in DIR/" + two + ", which lacks it"},
      {"tensor that the map lacks", [](json& index) { index["weight_map"].erase("encoder.embeddings.norm.weight"); },
       "DIR/" + two +
           ": tensor encoder.embeddings.norm.weight stands in this file, but not in the weight_map of DIR/model.safetensors.index.json"},
      {"tensor in the other shard", [one](json& index) { index["weight_map"]["encoder.embeddings.norm.weight"] = one; },
       "DIR/model.safetensors.index.json: weight_map has tensor encoder.embeddings.norm.weight in DIR/" + one + ", which lacks it"},
  }));
  INFO(lie.title);
  const Broken broken(2);
  std::string name;
  broken.change_index([&](json& index) {
    lie.change(index);
    if (lie.message == outside) {
      name = index["weight_map"]["scorer.3.bias"].dump();
    }
  });
  auto want = lie.message;
  const auto replace = [&want](const std::string& from, const std::string& to) {
    for (auto at = want.find(from); at != std::string::npos; at = want.find(from, at + to.size())) {
      want.replace(at, from.size(), to);
    }
  };
  replace("DIR", broken.dir.path());
  replace("\"NAME\"", name);
  CHECK(broken.error().kind() == ErrorKind::input);
  CHECK(broken.error().message() == want);
}

TEST_CASE("an index that is no JSON, or has a tensor twice") {
  const Broken broken(2);
  write_file(broken.at("model.safetensors.index.json"), "{");
  CHECK_THAT(broken.error().message(), Catch::StartsWith(broken.at("model.safetensors.index.json") + ": line 1, column 2: "));
  write_file(broken.at("model.safetensors.index.json"), R"({"weight_map": {"a": "x", "a": "y"}})");
  CHECK(broken.error().message() == broken.at("model.safetensors.index.json") + ": a stands twice in one object");
}

TEST_CASE("shards are read by the names that the index gives them, links too") {
  const Broken broken(2);
  fs::create_directory(broken.at("blobs"));
  const auto shard = broken.at("model-00001-of-00002.safetensors");
  fs::rename(shard, broken.at("blobs/1"));
  fs::create_symlink("blobs/1", shard);
  CHECK(Checkpoint::open(broken.dir.path()));
}

TEST_CASE("a checkpoint that is moved goes on reading, and says where it failed") {
  const Broken broken;
  auto opened = Checkpoint::open(broken.dir.path());
  REQUIRE(opened);
  Checkpoint moved = *std::move(opened);
  CHECK(read_values(moved, 0).size() == 50 * 16);
  fs::resize_file(broken.at("model.safetensors"), 2000);
  std::array<std::byte, 4> bytes = {};
  const auto status = moved.read(0, 50 * 16 * 4 - 4, bytes);
  REQUIRE_FALSE(status);
  CHECK_THAT(status.error().message(), Catch::StartsWith(broken.at("model.safetensors") + ": ends at byte "));
  CHECK_THAT(status.error().message(), Catch::EndsWith("(tensor encoder.embeddings.tok_embeddings.weight)"));
}

}  // namespace
