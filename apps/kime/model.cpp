// kime model
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "command.h"
#include "kime/backend/cpu/peak.h"
#include "kime/base/counted.h"
#include "kime/model/checkpoint.h"

namespace kime::app {

namespace {

struct ModelCommand {
  std::string folder;
  bool json = false;
  bool verbose = false;
};

std::string dtypes(const Checkpoint& checkpoint) {
  std::string text;
  const auto counts = checkpoint.parameters_by_dtype();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) {
      text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(static_cast<DType>(i)));
    }
  }
  return text;
}

std::size_t full_layers(const ModelConfig& config) {
  std::size_t full = 0;
  for (const auto& layer : config.layers) {
    full += layer.full ? 1 : 0;
  }
  return full;
}

nlohmann::json as_json(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  nlohmann::json files = nlohmann::json::array();
  for (const auto& file : checkpoint.weight_files()) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  nlohmann::json full = nlohmann::json::array();
  for (const auto& layer : config.layers) {
    full.push_back(layer.full);
  }
  return {{"directory", checkpoint.directory()},
          {"parameters", checkpoint.parameters()},
          {"weight_bytes", checkpoint.weight_bytes()},
          {"weight_files", files},
          {"dtypes", dtypes(checkpoint)},
          {"vocab", config.vocab},
          {"hidden", config.hidden},
          {"intermediate", config.intermediate},
          {"heads", config.heads},
          {"layers", config.layers.size()},
          {"layer_is_full", full},
          {"window", config.window},
          {"theta_full", config.theta_full},
          {"theta_local", config.theta_local},
          {"norm_eps", config.norm_eps},
          {"head_layers", config.head_layers},
          {"temperature", checkpoint.calibration().by_type}};
}

void print(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  const auto row = [](std::string_view name, const std::string& value) { fmt::print("{:14}{}\n", name, value); };
  row("checkpoint", checkpoint.directory());
  row("weights", fmt::format("{} parameters, {}, {} bytes in {}", grouped(checkpoint.parameters()), dtypes(checkpoint),
                             grouped(checkpoint.weight_bytes()), counted(checkpoint.weight_files().size(), "file")));
  row("vocabulary", counted(config.vocab, "token"));
  row("encoder", fmt::format("{} of width {} (feed-forward {}), {} of width {}", counted(config.layers.size(), "layer"),
                             grouped(config.hidden), grouped(config.intermediate), counted(config.heads, "head"), config.head_width()));
  row("attention", fmt::format("{} full (theta {}), {} within {} tokens (theta {})", full_layers(config), config.theta_full,
                               config.layers.size() - full_layers(config), config.window, config.theta_local));
  row("decision head", fmt::format("{} of {}", counted(config.head_layers, "layer"), counted(config.decision_heads(), "head")));
  const auto& temperature = checkpoint.calibration().by_type;
  row("temperature", fmt::format("choice {}, score {}, noul {}", temperature[0], temperature[1], temperature[2]));
}

int run(const ModelCommand& options) {
  const auto checkpoint = Checkpoint::open(options.folder);
  if (!checkpoint) {
    return fail(checkpoint.error().text());
  }
  if (options.json) {
    fmt::print("{}\n", as_json(*checkpoint).dump(2));
  } else {
    print(*checkpoint);
  }
  if (options.verbose) {
    fmt::print(stderr, "kime: compiled targets: {}\nkime: targets of this CPU: {}\nkime: target in use: {}\n",
               fmt::join(cpu::compiled_targets(), ", "), fmt::join(cpu::runnable_targets(), ", "), cpu::target_in_use());
  }
  return kDone;
}

}  // namespace

void add_model(CLI::App& app, Run& run_command) {
  auto* command = app.add_subcommand("model", "Describe a checkpoint, after checking all of it but the weights' values");
  auto options = std::make_shared<ModelCommand>();
  command->add_option("DIR", options->folder, "The checkpoint's directory (else $KIME_MODEL)")->envname("KIME_MODEL")->required();
  command->add_flag("--json", options->json, "One JSON document");
  command->add_flag("-v,--verbose", options->verbose, "Also the instruction sets, on standard error");
  command->footer(examples("  kime model checkpoint/\n  kime model checkpoint/ --json | jq .parameters"));
  command->callback([options, &run_command] { run_command = [options] { return run(*options); }; });
}

}  // namespace kime::app
