// Checkpoints made with the reference package: their records' scores against its float64 ones.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kime/backend/cpu/cpu_backend.h"
#include "kime/graph/builder.h"
#include "kime/model/checkpoint.h"
#include "tests/backend/runs.h"

namespace kime::test {
namespace {

using Json = nlohmann::json;

std::vector<Json> lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(Json::parse(line));
  }
  return lines;
}

std::uint8_t type_of(const Json& qtype) {
  if (qtype.is_number()) {
    return qtype.get<std::uint8_t>();
  }
  return qtype == "choice" ? 0 : qtype == "score" ? 1 : 2;
}

// How far logits and act are from the float64 ones, in parts of what the set allows.
double distance(const std::filesystem::path& set) {
  auto checkpoint = Checkpoint::open(set.string());
  REQUIRE(checkpoint);
  const Graph graph = build_graph(checkpoint->config());
  auto loaded = Loaded::load(*checkpoint, graph, 2);
  REQUIRE(loaded);
  BatchBuffer buffer;
  for (const Json& record : lines(set / "records.jsonl")) {
    REQUIRE(buffer.push(record["ids"].get<std::vector<std::uint32_t>>(), record["markers"].get<std::vector<std::uint32_t>>(),
                        type_of(record["qtype"])));
  }
  const Batch batch = buffer.batch();
  REQUIRE(batch.check(checkpoint->config().vocab, ModelConfig::types));
  const Outputs outputs = (*loaded)->run(batch);
  REQUIRE(outputs.act.size() == batch.seqs());

  const Json limits = Json::parse(std::ifstream(set / "tolerance.json"))["f32"];
  const auto expected = lines(set / "expected.jsonl");
  REQUIRE(expected.size() == batch.seqs());
  double worst = 0;
  const auto compare = [&](float got, double want, double limit) {
    worst = std::isnan(got) ? HUGE_VAL : std::max(worst, std::abs(got - want) / limit);
  };
  for (std::size_t s = 0; s < batch.seqs(); ++s) {
    const auto logits = expected[s]["logits"].get<std::vector<double>>();
    REQUIRE(logits.size() == batch.mcu[s + 1] - batch.mcu[s]);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      compare(outputs.logits[batch.mcu[s] + i], logits[i], limits["logits"].get<double>());
    }
    for (std::size_t i = 0; i < 2; ++i) {
      compare(outputs.act[s][i], expected[s]["act"][i].get<double>(), limits["act"].get<double>());
    }
  }
  return worst;
}

// Sanitizers take minutes for the others, whose bits CI holds through the program.
#ifdef KIME_SANITIZED
constexpr bool kAllSets = false;
#else
constexpr bool kAllSets = true;
#endif

TEST_CASE("the parity sets score within half of their limits") {
  std::size_t sets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(KIME_TESTDATA) / "parity")) {
    if (entry.is_directory() && (kAllSets || entry.path().filename() == "nohead-f32")) {
      CAPTURE(entry.path().filename().string());
      const double worst = distance(entry.path());
      INFO("distance " << worst);
      CHECK(worst < 0.5);
      ++sets;
    }
  }
  CHECK(sets >= (kAllSets ? 5U : 1U));
}

}  // namespace
}  // namespace kime::test
