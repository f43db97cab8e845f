// The fake driver: modules, functions and launches.
#include <algorithm>
#include <cstring>

#include "tests/cuda/fake/fake_state.h"

namespace kime::test {

namespace {

constexpr unsigned kMostThreads = 1024;
constexpr int kMostShared = 232448;

// A launch whose device addresses have become pointers. Parameters are as the kernel's structs have them, so every aligned word that is an
// address of the device's range is one.
bool translate(FakeCudaState& state, const FakeContext& context, FakeLaunch& launch, std::vector<std::shared_ptr<FakeMemory>>& keep) {
  for (auto& parameter : launch.parameters) {
    for (std::size_t at = 0; at + sizeof(DeviceAddress) <= parameter.size(); at += sizeof(DeviceAddress)) {
      DeviceAddress word = 0;
      std::memcpy(&word, parameter.data() + at, sizeof(word));
      if (word < kDeviceBase || word >= kDeviceBase + kDeviceRoom * state.config.gpus.size()) {
        continue;
      }
      const std::byte* real = state.reach(context, word, 0, keep.emplace_back());
      if (real == nullptr) {
        return false;
      }
      std::memcpy(parameter.data() + at, static_cast<const void*>(&real), sizeof(real));
    }
  }
  return true;
}

void add_modules(cuda::DriverApi& api) {
  api.module_load_data = [](cuda::ModuleHandle* module, const void* image) {
    return fake_call("cuModuleLoadData", FakeNeeds::context, [&](FakeCall& call) {
      if (image == nullptr || call.refused_in_capture()) {
        return image == nullptr ? Code::invalid_value : Code::stream_capture_unsupported;
      }
      const std::uint64_t id = call.state.new_handle();
      call.state.modules[id] = {call.context};
      *module = handle<cuda::ModuleHandle>(id);
      return Code::success;
    });
  };
  api.module_unload = [](cuda::ModuleHandle module) {
    return fake_call("cuModuleUnload", FakeNeeds::context, [&](FakeCall& call) {
      if (call.refused_in_capture()) {
        return Code::stream_capture_unsupported;
      }
      std::erase_if(call.state.functions, [&](const auto& each) { return each.second.module == number(module); });
      return call.state.modules.erase(number(module)) == 1 ? Code::success : Code::invalid_handle;
    });
  };
  api.module_get_function = [](cuda::FunctionHandle* function, cuda::ModuleHandle module, const char* name) {
    return fake_call("cuModuleGetFunction", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.state.modules.find(number(module));
      if (found == call.state.modules.end() || found->second.context != call.context) {
        return Code::invalid_handle;
      }
      if (!call.state.kernels.contains(name)) {
        return Code::not_found;
      }
      const std::uint64_t id = call.state.new_handle();
      call.state.functions[id] = {number(module), name};
      *function = handle<cuda::FunctionHandle>(id);
      return Code::success;
    });
  };
  api.func_get_attribute = [](int* value, cuda::FunctionAttribute attribute, cuda::FunctionHandle function) {
    return fake_call("cuFuncGetAttribute", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.state.functions.find(number(function));
      if (found == call.state.functions.end()) {
        return Code::invalid_handle;
      }
      switch (attribute) {
        case cuda::FunctionAttribute::max_threads_per_block:
          *value = kMostThreads;
          break;
        case cuda::FunctionAttribute::max_dynamic_shared_bytes:
          *value = found->second.dynamic_shared_bytes;
          break;
        default:
          *value = 0;
      }
      return Code::success;
    });
  };
  api.func_set_attribute = [](cuda::FunctionHandle function, cuda::FunctionAttribute attribute, int value) {
    return fake_call("cuFuncSetAttribute", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.state.functions.find(number(function));
      if (found == call.state.functions.end()) {
        return Code::invalid_handle;
      }
      if (attribute != cuda::FunctionAttribute::max_dynamic_shared_bytes || value < 0 || value > kMostShared) {
        return Code::invalid_value;
      }
      found->second.dynamic_shared_bytes = value;
      return Code::success;
    });
  };
}

}  // namespace

void add_fake_kernels(cuda::DriverApi& api) {
  add_modules(api);
  api.launch_kernel = [](cuda::FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared_bytes, cuda::StreamHandle stream, void** parameters,
                         void** extra) {
    return fake_call("cuLaunchKernel", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.state.functions.find(number(function));
      if (found == call.state.functions.end()) {
        return Code::invalid_handle;
      }
      FakeLaunch launch{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, {}};
      const auto none = [](unsigned size) { return size == 0; };
      if (std::ranges::any_of(launch.grid, none) || std::ranges::any_of(launch.block, none) || grid_y > 65535 || grid_z > 65535 ||
          block_x * block_y * block_z > kMostThreads || shared_bytes > static_cast<unsigned>(found->second.dynamic_shared_bytes) ||
          extra != nullptr) {
        return Code::invalid_value;
      }
      const FakeKernel& kernel = call.state.kernels.at(found->second.name);
      for (std::size_t i = 0; i < kernel.parameter_bytes.size(); ++i) {
        const auto* bytes = static_cast<const std::byte*>(parameters[i]);
        launch.parameters.emplace_back(bytes, bytes + kernel.parameter_bytes[i]);
      }
      return call.enqueue(stream, [&state = call.state, context = call.context, run = kernel.run, launch = std::move(launch)] {
        FakeLaunch now = launch;  // a graph's node runs often
        std::vector<std::shared_ptr<FakeMemory>> keep;
        return translate(state, *context, now, keep) ? run(now) : Code::illegal_address;
      });
    });
  };
}

}  // namespace kime::test
