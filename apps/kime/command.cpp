#include "command.h"

#include <fmt/format.h>

#include <cstdio>

#include "kime/base/cpu_limits.h"

namespace kime::app {

void ModelOption::add(CLI::App& command) {
  command.add_option("-m,--model", folder, "The checkpoint's directory (else $KIME_MODEL)")->envname("KIME_MODEL")->type_name("DIR");
}

void BucketOptions::add(CLI::App& command) {
  command.add_option("--buckets", file, "A bucket table: `stage tokens seqs markers` a line")->type_name("FILE");
  command.add_option("--stage", stage, "The table's stage to use (default: compat, or the first one of --buckets)")->type_name("NAME");
}

void PrecisionOption::add(CLI::App& command) {
  command
      .add_option(
          "--precision", given,
          "What products are computed in: f32, bf16, f16 (not on the CPU) or int8 (not on GPUs), or auto (default): f32 on the CPU, "
          "f16 on GPUs")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "f16", "int8"}))
      ->type_name("P");
}

Result<Precision> PrecisionOption::cpu() const {
  const auto precision = is_auto() ? Precision::f32 : precision_of(given).value();
  if (precision == Precision::f16) {
    return Error(ErrorKind::input, fmt::format("--precision {}: the CPU has f32, bf16 and int8", given));
  }
  return precision;
}

Result<Precision> PrecisionOption::cuda() const {
  const auto precision = is_auto() ? Precision::f16 : precision_of(given).value();
  if (precision == Precision::int8) {
    return Error(ErrorKind::input, fmt::format("--precision {}: not on CUDA devices, which have f32, bf16 and f16", given));
  }
  return precision;
}

void ThreadsOption::add(CLI::App& command, const std::string& purpose) {
  command.add_option("--threads", given, purpose + " (default: the CPUs that this process may use)")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
}

std::size_t ThreadsOption::count() const {
  return given == 0 ? cpu_limits().usable() : given;
}

int fail(std::string_view message, int status) {
  fmt::print(stderr, "kime: {}\n", message);
  return status;
}

std::string examples(std::string_view text) {
  return fmt::format("Examples:\n{}", text);
}

}  // namespace kime::app
