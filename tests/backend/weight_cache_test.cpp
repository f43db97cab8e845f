// Packed weights on disk: what is read is what was packed, and whatever is wrong with a file is found and repaired.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kime/backend/cpu/cpu_backend.h"
#include "kime/backend/cpu/weight_key.h"
#include "kime/base/memory.h"
#include "kime/graph/builder.h"
#include "tests/support/random_model.h"

namespace kime::test {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "kime-cache-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  [[nodiscard]] fs::path path() const { return path_; }
  [[nodiscard]] std::vector<fs::path> files() const { return {fs::directory_iterator(path_), fs::directory_iterator()}; }

 private:
  fs::path path_;
};

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void put(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

// Large enough for a block of several pieces.
ModelConfig config() {
  ModelConfig config{.vocab = 1200, .hidden = 256, .intermediate = 640, .heads = 4, .layers = {{true}, {false}, {false}}};
  config.head_layers = 1;
  return config;
}

// What one load gave.
struct Load {
  std::string block;
  cpu::WeightCache::Counts counts;
  std::vector<std::string> notices;
};

class Model {
 public:
  explicit Model(Precision precision = Precision::f32, std::uint64_t seed = 1, DType dtype = DType::bf16)
      : weights_(config(), seed, dtype), graph_(build_graph(config(), precision)) {}

  // Through a cache in `folder`, or without one.
  [[nodiscard]] Load load(const fs::path& folder, const kernels::Table& table = kernels::table(), std::size_t threads = 2) const {
    Load got;
    const auto cache =
        folder.empty() ? nullptr
                       : std::make_shared<cpu::WeightCache>(folder.string(), [&](const std::string& text) { got.notices.push_back(text); });
    const CpuBackend backend(threads, table, nullptr, cache);
    auto layout = CpuBackend::layout(weights_.source(), graph_, table);
    REQUIRE(layout);
    auto memory = Pages::make(layout->bytes());
    REQUIRE(memory);
    REQUIRE(backend.load(weights_.source(), graph_, *layout, memory->data()));
    got.block.assign(reinterpret_cast<const char*>(memory->data()), layout->bytes());
    if (cache) {
      got.counts = cache->counts();
    }
    return got;
  }

  [[nodiscard]] std::string key(std::size_t threads, const kernels::Table& table = kernels::table()) const {
    auto layout = CpuBackend::layout(weights_.source(), graph_, table);
    REQUIRE(layout);
    const auto key = cpu::weight_key(weights_.source(), graph_, *layout, table, cpu::Crew(threads), threads);
    REQUIRE(key);
    return key->hex();
  }

  RandomWeights& weights() { return weights_; }
  Graph& graph() { return graph_; }

 private:
  RandomWeights weights_;
  Graph graph_;
};

void check_read(const Load& load) {
  CHECK(load.counts.read == 1);
  CHECK(load.counts.stored == 0);
  CHECK(load.notices.empty());
}

void check_stored(const Load& load, std::size_t notices) {
  CHECK(load.counts.read == 0);
  CHECK(load.counts.stored == 1);
  CHECK(load.notices.size() == notices);
}

TEST_CASE("a second load reads what the first one packed, bit for bit, in every precision") {
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::int8}) {
    CAPTURE(name_of(precision));
    const Folder folder;
    const fs::path below = folder.path() / "made" / "on the way";
    const Model model(precision);
    const std::string want = model.load({}).block;
    const Load first = model.load(below);
    check_stored(first, 0);
    CHECK(first.block == want);
    for (const std::size_t threads : {1U, 3U}) {
      const Load again = model.load(below, kernels::table(), threads);
      check_read(again);
      CHECK(again.block == want);
    }
    REQUIRE(std::distance(fs::directory_iterator(below), fs::directory_iterator()) == 1);
    CHECK(fs::directory_iterator(below)->path().filename() == model.key(1) + ".kimew");
  }
}

TEST_CASE("any damage is found, said once and repaired") {
  const Folder folder;
  const Model model(Precision::int8);
  const std::string want = model.load({}).block;
  REQUIRE(model.load(folder.path()).counts.stored == 1);
  const fs::path file = folder.files().at(0);
  const std::string sound = bytes_of(file);
  const std::size_t head = sound.size() - want.size();
  REQUIRE(head == 4096);
  REQUIRE(want.size() > std::size_t{4} << 20);

  const auto flipped = [&](std::size_t at) {
    std::string bytes = sound;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    return bytes;
  };
  const std::vector<std::pair<std::string, std::string>> damages = {
      {"", "has 0 bytes"},
      {sound.substr(0, 100), "has 100 bytes"},
      {sound.substr(0, sound.size() - 1), "bytes, not"},
      {sound + "x", "bytes, not"},
      {flipped(0), "holds no weights of kime's"},
      {flipped(8), "is of format 17, not 1"},
      {flipped(13), "its head is damaged"},
      {flipped(20), "its head is damaged"},
      {flipped(33), "its head is damaged"},
      {flipped(40), "its head is damaged"},  // a checksum
      {flipped(50), "its head is damaged"},
      {flipped(2000), "its head is damaged"},
      {flipped(head - 1), "its head is damaged"},
      {flipped(head), "its content is damaged"},
      {flipped(head + want.size() / 2), "its content is damaged"},
      {flipped(sound.size() - 1), "its content is damaged"},
      {std::string(sound.size(), '\0'), "holds no weights of kime's"},
      {sound.substr(0, head) + std::string(want.size(), '\xff'), "its content is damaged"},
  };
  for (const auto& [bytes, why] : damages) {
    CAPTURE(bytes.size(), why);
    put(file, bytes);
    const Load repaired = model.load(folder.path());
    check_stored(repaired, 1);
    CHECK_THAT(repaired.notices.at(0), Catch::Contains(why) && Catch::Contains(file.string()) && Catch::EndsWith("written anew"));
    CHECK(repaired.block == want);
    CHECK(bytes_of(file) == sound);
  }
  check_read(model.load(folder.path()));
}

TEST_CASE("a file under another's name is not believed") {
  const Folder folder;
  const Model one(Precision::f32, 1);
  const Model other(Precision::f32, 2);
  REQUIRE(one.load(folder.path()).counts.stored == 1);
  fs::rename(folder.path() / (one.key(1) + ".kimew"), folder.path() / (other.key(1) + ".kimew"));
  const Load load = other.load(folder.path());
  check_stored(load, 1);
  CHECK_THAT(load.notices.at(0), Catch::Contains("it holds other weights"));
  CHECK(load.block == other.load({}).block);
}

TEST_CASE("the key follows content, names, types, precision and kernels, and not the threads") {
  const std::string key = Model().key(1);
  CHECK(Model().key(2) == key);
  CHECK(Model().key(7) == key);
  std::vector<std::string> others = {Model(Precision::f32, 2).key(1), Model(Precision::f32, 1, DType::f16).key(1),
                                     Model(Precision::f32, 1, DType::f32).key(1), Model(Precision::bf16).key(1),
                                     Model(Precision::int8).key(1)};
  Model renamed;
  renamed.graph().weights[3].name += "x";
  others.push_back(renamed.key(1));
  // The last byte of each tensor, so that none is left out.
  Model changed;
  for (HostTensor& host : changed.weights().tensors()) {
    const auto sound = host.bytes;
    std::vector<std::byte> bytes(sound.begin(), sound.end());
    bytes.back() ^= std::byte{1};
    host.bytes = bytes;
    others.push_back(changed.key(2));
    host.bytes = sound;
  }
  CHECK(changed.key(2) == key);
  std::vector<std::string> all = others;
  all.push_back(key);
  std::ranges::sort(all);
  CHECK(std::ranges::adjacent_find(all) == all.end());
}

TEST_CASE("each target has a file of its own") {
  const Folder folder;
  const Model model(Precision::bf16);
  std::size_t files = 0;
  for (const kernels::Table* table : kernels::tables()) {
    CAPTURE(table->target);
    const Load first = model.load(folder.path(), *table);
    check_stored(first, 0);
    CHECK(folder.files().size() == ++files);
    const Load again = model.load(folder.path(), *table);
    check_read(again);
    CHECK(again.block == first.block);
    CHECK(again.block == model.load({}, *table).block);
  }
}

TEST_CASE("a folder that cannot be made is one notice") {
  const Folder folder;
  put(folder.path() / "file", "no folder");
  const Model model;
  for (const fs::path& where : {folder.path() / "file" / "cache", folder.path() / "file"}) {
    const Load load = model.load(where);
    CHECK(load.counts.stored == 0);
    CHECK(load.counts.read == 0);
    REQUIRE(load.notices.size() == 1);
    CHECK_THAT(load.notices[0], Catch::Contains(where.string()) && Catch::Contains("Not a directory"));
    CHECK(load.block == model.load({}).block);
  }
}

TEST_CASE("what stands in the file's place and cannot be replaced is one notice") {
  const Folder folder;
  const Model model;
  fs::create_directory(folder.path() / (model.key(1) + ".kimew"));
  const Load load = model.load(folder.path());
  CHECK(load.counts.stored == 0);
  REQUIRE(load.notices.size() == 1);
  CHECK_THAT(load.notices[0], Catch::Contains("it is no file") && Catch::Contains("Is a directory"));
  CHECK(load.block == model.load({}).block);
  CHECK(folder.files().size() == 1);  // nothing is left of the attempt
}

TEST_CASE("what a killed writer left is taken over") {
  const Folder folder;
  const Model model;
  put(folder.path() / (model.key(1) + ".kimew.part"), std::string(100'000'000, 'x'));
  check_stored(model.load(folder.path()), 0);
  CHECK(folder.files().size() == 1);
  check_read(model.load(folder.path()));
}

TEST_CASE("writers at the same time do no harm") {
  const Model model(Precision::bf16);
  const std::string want = model.load({}).block;
  for (int round = 0; round < 5; ++round) {
    const Folder folder;
    std::vector<Load> loads(4);
    std::vector<std::thread> threads;
    for (Load& load : loads) {
      threads.emplace_back([&] { load = model.load(folder.path()); });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    for (const Load& load : loads) {
      CHECK(load.block == want);
      CHECK(load.notices.empty());
    }
    CHECK(folder.files().size() == 1);
    check_read(model.load(folder.path()));
  }
}

TEST_CASE("a source that fails gives its error, and no file") {
  const Folder folder;
  Model model;
  auto& bytes = model.weights().tensors()[2].bytes;
  bytes = bytes.first(bytes.size() - 4);
  auto layout = CpuBackend::layout(model.weights().source(), model.graph());
  REQUIRE(layout);
  auto memory = Pages::make(layout->bytes());
  REQUIRE(memory);
  const CpuBackend backend(2, kernels::table(), nullptr, std::make_shared<cpu::WeightCache>(folder.path().string(), nullptr));
  const auto loaded = backend.load(model.weights().source(), model.graph(), *layout, memory->data());
  REQUIRE(!loaded);
  CHECK(loaded.error().kind() == ErrorKind::input);
  CHECK(folder.files().empty());
}

// Gives other content once it has been read so many times, as a checkpoint that is written to while it is loaded.
class Changing final : public TensorSource {
 public:
  Changing(const TensorSource& before, const TensorSource& after, std::size_t reads) : before_(before), after_(after), left_(reads) {}
  [[nodiscard]] std::size_t size() const override { return before_.size(); }
  [[nodiscard]] DType dtype(std::size_t index) const override { return before_.dtype(index); }
  [[nodiscard]] std::span<const std::size_t> shape(std::size_t index) const override { return before_.shape(index); }
  Status read(std::size_t index, std::uint64_t offset, std::span<std::byte> out) const override {
    if (left_ == 0) {
      return after_.read(index, offset, out);
    }
    --left_;
    return before_.read(index, offset, out);
  }

 private:
  const TensorSource& before_;
  const TensorSource& after_;
  mutable std::size_t left_;
};

TEST_CASE("a checkpoint that changes while it is read is not kept") {
  const Folder folder;
  Model before(Precision::f32, 1);
  Model after(Precision::f32, 2);
  const HostTensors first = before.weights().source();
  const HostTensors second = after.weights().source();
  const Changing source(first, second, before.graph().weights.size() + 5);  // after the key, which reads each of them once or more
  auto layout = CpuBackend::layout(source, before.graph());
  REQUIRE(layout);
  auto memory = Pages::make(layout->bytes());
  REQUIRE(memory);
  std::string notice;
  const CpuBackend backend(1, kernels::table(), nullptr,
                           std::make_shared<cpu::WeightCache>(folder.path().string(), [&](const std::string& text) { notice = text; }));
  REQUIRE(backend.load(source, before.graph(), *layout, memory->data()));
  CHECK_THAT(notice, Catch::Contains("the checkpoint changed while it was read"));
  CHECK(folder.files().empty());
}

}  // namespace
}  // namespace kime::test
