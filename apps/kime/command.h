// What the subcommands share. Only this folder exits, prints help, or knows of CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kime/base/counted.h"
#include "kime/base/error.h"
#include "kime/base/precision.h"

namespace kime::app {

/// Exit statuses, as the README lists them.
inline constexpr int kDone = 0;
inline constexpr int kSomeFailed = 1;
inline constexpr int kUnusable = 2;
inline constexpr int kLost = 3;

/// Each adds its subcommand to `app`; when that is given, it puts what is to be done into `run`, which returns the exit status.
using Run = std::function<int()>;
void add_score(CLI::App& app, Run& run);
void add_check(CLI::App& app, Run& run);
void add_compare(CLI::App& app, Run& run);
void add_report(CLI::App& app, Run& run);
void add_buckets(CLI::App& app, Run& run);
void add_model(CLI::App& app, Run& run);
void add_devices(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);

/// Options that several subcommands have.
struct ModelOption {
  std::string folder;
  void add(CLI::App& command);
};
/// `--precision`, as given.
struct PrecisionOption {
  std::string given = "auto";
  void add(CLI::App& command);
  [[nodiscard]] bool is_auto() const { return given == "auto"; }
  /// What the CPU computes in. Errors: `input` for one that it does not have.
  [[nodiscard]] Result<Precision> cpu() const;
  /// The same for CUDA devices.
  [[nodiscard]] Result<Precision> cuda() const;
};
struct BucketOptions {
  std::string file;
  std::string stage;
  void add(CLI::App& command);
};

struct ThreadsOption {
  std::size_t given = 0;
  void add(CLI::App& command, const std::string& purpose = "Threads that score");
  /// What was given, else the CPUs that this process may use.
  [[nodiscard]] std::size_t count() const;
};

/// Prints "kime: MESSAGE" to standard error and returns `status`.
int fail(std::string_view message, int status = kUnusable);

/// A footer of examples for a subcommand's --help.
std::string examples(std::string_view text);

}  // namespace kime::app
