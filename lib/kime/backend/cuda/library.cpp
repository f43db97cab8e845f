#include "kime/backend/cuda/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "kime/backend/cuda/errors.h"

namespace kime::cuda {

namespace {

Error missing(std::string what) {
  return {ErrorKind::device, std::move(what)};
}

Error too_old(int version) {
  return missing(
      fmt::format("the NVIDIA driver is too old: it has CUDA {}, and kime needs {}", version_text(version), version_text(kNeededVersion)));
}

// A library that stays open: drivers have threads and exit handlers of their own, which must not be unmapped.
struct Opened {
  void* handle = nullptr;
  std::string why;         // null handle only
  bool not_found = false;  // null handle only: there is no such file, as opposed to one that does not load
};

Opened open_library(const std::string& name) {
  Opened opened;
  opened.handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened.handle == nullptr) {
    const char* why = dlerror();
    opened.why = why == nullptr ? "no reason is given" : why;
    opened.not_found = opened.why.starts_with(name + ": cannot open shared object file: No such file");
  }
  return opened;
}

Symbols symbols_of(void* handle) {
  return [handle](const char* name) { return dlsym(handle, name); };
}

// cuGetProcAddress in either of its forms.
class Resolver {
 public:
  explicit Resolver(const Symbols& symbols)
      : now_(reinterpret_cast<GetProcAddress>(symbols("cuGetProcAddress_v2"))),
        old_(reinterpret_cast<OldGetProcAddress>(symbols("cuGetProcAddress"))) {}

  [[nodiscard]] bool there() const { return now_ != nullptr || old_ != nullptr; }
  [[nodiscard]] void* find(const char* name) const {
    void* found = nullptr;
    SymbolStatus status = SymbolStatus::found;
    const Code code =
        now_ != nullptr ? now_(name, &found, kNeededVersion, kProcDefault, &status) : old_(name, &found, kNeededVersion, kProcDefault);
    return code == Code::success && status == SymbolStatus::found ? found : nullptr;
  }

 private:
  GetProcAddress now_;
  OldGetProcAddress old_;
};

Result<DriverLibrary> initialized(DriverLibrary driver) {
  if (driver.version < kNeededVersion) {
    return too_old(driver.version);
  }
  if (const Code code = driver.api.init(0); code != Code::success) {
    const std::string_view what = code == Code::no_device ? "finds no device" : "does not start";
    return missing(fmt::format("the NVIDIA driver {} (cuInit: {})", what, words(driver.api, code)));
  }
  return driver;
}

}  // namespace

Result<DriverLibrary> resolve_driver(const Symbols& symbols, const std::string& name) {
  DriverLibrary driver;
  // Every driver there ever was exports this one; it may be called before cuInit.
  using GetVersion = decltype(driver.api.driver_get_version);
  const auto get_version = reinterpret_cast<GetVersion>(symbols("cuDriverGetVersion"));
  if (get_version == nullptr) {
    return missing(fmt::format("{} is no CUDA driver: it lacks cuDriverGetVersion", name));
  }
  if (const Code code = get_version(&driver.version); code != Code::success) {
    return missing(fmt::format("the NVIDIA driver does not say its version: error {}", static_cast<unsigned>(code)));
  }
  if (driver.version < kNeededVersion) {
    return too_old(driver.version);
  }
  const Resolver resolver(symbols);
  if (!resolver.there()) {
    return missing("the NVIDIA driver lacks the function cuGetProcAddress");
  }
  std::vector<std::string_view> lacking;
  for_each_function(driver.api, [&](const char* function, auto& member) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(resolver.find(function));
    if (member == nullptr) {
      lacking.emplace_back(function);
    }
  });
  if (!lacking.empty()) {
    return missing(fmt::format("the NVIDIA driver lacks the function{} {} of CUDA {}", lacking.size() == 1 ? "" : "s",
                               fmt::join(lacking, ", "), version_text(kNeededVersion)));
  }
  return initialized(driver);
}

Result<DriverLibrary> start_driver(const DriverApi& api) {
  DriverLibrary driver{api};
  if (const Code code = api.driver_get_version(&driver.version); code != Code::success) {
    return error_of(api, "cuDriverGetVersion", code);
  }
  return initialized(driver);
}

Result<DriverLibrary> open_driver(const std::string& name) {
  const auto opened = open_library(name);
  if (opened.handle == nullptr) {
    return missing(opened.not_found ? fmt::format("there is no NVIDIA driver: {} was not found", name)
                                    : fmt::format("the NVIDIA driver cannot be loaded: {}", opened.why));
  }
  return resolve_driver(symbols_of(opened.handle), name);
}

std::string cublaslt_version(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Result<CublasLt> find_cublaslt(const std::vector<std::string>& names) {
  std::string broken;
  for (const auto& name : names) {
    const auto opened = open_library(name);
    if (opened.handle == nullptr) {
      if (!opened.not_found && broken.empty()) {
        broken = opened.why;
      }
      continue;
    }
    using GetVersion = std::size_t (*)();
    const auto get_version = reinterpret_cast<GetVersion>(dlsym(opened.handle, "cublasLtGetVersion"));
    if (get_version == nullptr) {
      return missing(fmt::format("{} is no cuBLASLt: it lacks cublasLtGetVersion", name));
    }
    return CublasLt{name, cublaslt_version(get_version())};
  }
  return missing(broken.empty() ? fmt::format("there is no cuBLASLt: none of {} was found", fmt::join(names, ", "))
                                : fmt::format("cuBLASLt cannot be loaded: {}", broken));
}

}  // namespace kime::cuda
