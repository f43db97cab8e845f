#include "kime/backend/cuda/errors.h"

#include <fmt/format.h>

namespace kime::cuda {

std::string words(const DriverApi& api, Code code) {
  const char* name = nullptr;
  if (api.get_error_name(code, &name) != Code::success || name == nullptr) {
    return fmt::format("error {}", static_cast<unsigned>(code));
  }
  const char* text = nullptr;
  if (api.get_error_string(code, &text) != Code::success || text == nullptr) {
    return name;
  }
  return fmt::format("{}: {}", name, text);
}

Error error_of(const DriverApi& api, std::string_view function, Code code) {
  return {ErrorKind::device, fmt::format("{}: {}", function, words(api, code))};
}

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace kime::cuda
