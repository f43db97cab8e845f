// The kime binary: wires the subcommands to the command line.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>

#include "command.h"
#include "kime/backend/cpu/peak.h"
#include "kime/base/arithmetic.h"

namespace {

std::string version() {
  return fmt::format("kime {} (arithmetic {})", KIME_VERSION, kime::kArithmetic);
}

// The kernels take the best instruction set when they do not know the name; a person who gave one wants to know.
bool target_is_known() {
  const char* wanted = std::getenv("KIME_CPU_TARGET");
  return wanted == nullptr || *wanted == '\0' || kime::cpu::target_in_use() == wanted;
}

int run(int argc, char** argv) {
  CLI::App app{"kime scores JSONL records with option-marker decision models: in input order, the same bits every time."};
  app.name("kime");
  app.set_version_flag("--version", version());
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 all scored; 1 some records failed and their lines say why; 2 wrong usage, or a model or input that cannot be\n"
      "used; 3 the job was lost on the way. `kime COMMAND --help` has examples.");
  kime::app::Run command;
  kime::app::add_score(app, command);
  kime::app::add_check(app, command);
  kime::app::add_compare(app, command);
  kime::app::add_report(app, command);
  kime::app::add_buckets(app, command);
  kime::app::add_model(app, command);
  kime::app::add_devices(app, command);
  kime::app::add_bench(app, command);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help and --version
      return app.exit(error);
    }
    const auto chosen = app.get_subcommands();
    if (chosen.empty() && argc > 1 && argv[1][0] != '-') {
      return kime::app::fail(fmt::format("there is no command '{}'\nTry `kime --help`.", argv[1]));
    }
    return kime::app::fail(fmt::format("{}\nTry `kime{} --help`.", error.what(), chosen.empty() ? "" : " " + chosen.front()->get_name()));
  }
  if (!target_is_known()) {
    return kime::app::fail(fmt::format("KIME_CPU_TARGET names '{}'; this CPU runs: {}", std::getenv("KIME_CPU_TARGET"),
                                       fmt::join(kime::cpu::runnable_targets(), ", ")));
  }
  return command();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file past the shell's limit is an error like a full disk, not the end at once
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    return kime::app::fail("out of memory", kime::app::kLost);
  } catch (const std::exception& error) {
    return kime::app::fail(error.what(), kime::app::kLost);
  }
}
