#include "kime/backend/cuda/modules.h"

#include <fmt/format.h>

#include "kime/backend/cuda/errors.h"

namespace kime::cuda {

Modules::~Modules() {
  if (!modules_.empty() && context_->bind()) {
    for (ModuleHandle module : modules_) {
      static_cast<void>(context_->api().module_unload(module));
    }
  }
}

Status Modules::load() {
  while (modules_.size() < images_.size()) {
    ModuleHandle module = nullptr;
    if (auto loaded = context_->check("cuModuleLoadData", context_->api().module_load_data(&module, images_[modules_.size()])); !loaded) {
      return loaded;
    }
    modules_.push_back(module);
  }
  return {};
}

Result<Modules::Function*> Modules::function(const std::string& name) {
  if (const auto found = functions_.find(name); found != functions_.end()) {
    return &found->second;
  }
  Code code = Code::not_found;
  FunctionHandle handle = nullptr;
  for (std::size_t i = 0; i < modules_.size() && code == Code::not_found; ++i) {
    code = context_->api().module_get_function(&handle, modules_[i], name.c_str());
  }
  if (auto got = context_->check("cuModuleGetFunction of " + name, code); !got) {
    return std::move(got).error();
  }
  return &functions_.emplace(name, Function{handle, 0}).first->second;
}

Result<FunctionHandle> Modules::find(const std::string& name, std::size_t shared_bytes) {
  if (auto bound = context_->bind(); !bound) {
    return std::move(bound).error();
  }
  const std::lock_guard lock(mutex_);
  if (auto loaded = load(); !loaded) {
    return std::move(loaded).error();
  }
  const bool known = functions_.contains(name);
  auto found = function(name);
  if (!found) {
    return std::move(found).error();
  }
  if (!known || (*found)->shared_bytes < shared_bytes) {  // setting it also loads a kernel that the driver would load when it is launched
    const Code code =
        context_->api().func_set_attribute((*found)->handle, FunctionAttribute::max_dynamic_shared_bytes, static_cast<int>(shared_bytes));
    if (auto set = context_->check("cuFuncSetAttribute of " + name, code); !set) {
      return std::move(set).error();
    }
    (*found)->shared_bytes = shared_bytes;
  }
  return (*found)->handle;
}

}  // namespace kime::cuda
