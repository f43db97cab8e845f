// The fake driver: start-up, devices and contexts.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/cuda/fake/fake_state.h"

namespace kime::test {

namespace {

struct Words {
  Code code;
  const char* name;
  const char* text;
};
constexpr Words kWords[] = {
    {Code::success, "CUDA_SUCCESS", "no error"},
    {Code::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {Code::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {Code::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {Code::no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {Code::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {Code::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {Code::ecc_uncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {Code::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {Code::illegal_state, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {Code::not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {Code::not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    {Code::illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {Code::launch_out_of_resources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {Code::launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {Code::unknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Words* words_of(Code code) {
  const auto* found = std::ranges::find(kWords, code, &Words::code);
  return found == std::end(kWords) ? nullptr : found;
}

// A call about one GPU.
Code about(const char* name, int gpu, const std::function<Code(FakeCall&, const FakeGpu&)>& body) {
  return fake_call(name, FakeNeeds::init, [&](FakeCall& call) {
    const auto& gpus = call.state.config.gpus;
    return gpu < 0 || static_cast<std::size_t>(gpu) >= gpus.size() ? Code::invalid_device : body(call, gpus[static_cast<std::size_t>(gpu)]);
  });
}

Code attribute_of(const FakeGpu& gpu, cuda::Attribute attribute, int* value) {
  switch (attribute) {
    case cuda::Attribute::max_threads_per_block:
      *value = 1024;
      return Code::success;
    case cuda::Attribute::clock_khz:
      *value = 1980000;
      return Code::success;
    case cuda::Attribute::multiprocessors:
      *value = gpu.multiprocessors;
      return Code::success;
    case cuda::Attribute::compute_major:
      *value = gpu.major;
      return Code::success;
    case cuda::Attribute::compute_minor:
      *value = gpu.minor;
      return Code::success;
    case cuda::Attribute::shared_bytes_per_block_optin:
      *value = 232448;
      return Code::success;
  }
  return Code::invalid_value;
}

void add_start(cuda::DriverApi& api) {
  api.init = [](unsigned flags) {
    return fake_call("cuInit", FakeNeeds::nothing, [&](FakeCall& call) {
      if (flags != 0 || call.state.config.init != Code::success) {
        return flags != 0 ? Code::invalid_value : call.state.config.init;
      }
      call.state.initialized = true;
      return Code::success;
    });
  };
  api.driver_get_version = [](int* version) {
    return fake_call("cuDriverGetVersion", FakeNeeds::nothing, [&](FakeCall& call) {
      *version = call.state.config.version;
      return Code::success;
    });
  };
  api.get_error_name = [](Code code, const char** name) {
    return fake_call("cuGetErrorName", FakeNeeds::nothing, [&](FakeCall&) {
      const Words* found = words_of(code);
      *name = found == nullptr ? nullptr : found->name;
      return found == nullptr ? Code::invalid_value : Code::success;
    });
  };
  api.get_error_string = [](Code code, const char** text) {
    return fake_call("cuGetErrorString", FakeNeeds::nothing, [&](FakeCall&) {
      const Words* found = words_of(code);
      *text = found == nullptr ? nullptr : found->text;
      return found == nullptr ? Code::invalid_value : Code::success;
    });
  };
}

void add_facts(cuda::DriverApi& api) {
  api.device_get_count = [](int* count) {
    return fake_call("cuDeviceGetCount", FakeNeeds::init, [&](FakeCall& call) {
      *count = static_cast<int>(call.state.config.gpus.size());
      return Code::success;
    });
  };
  api.device_get = [](cuda::DeviceNumber* device, int ordinal) {
    return about("cuDeviceGet", ordinal, [&](FakeCall&, const FakeGpu&) {
      *device = ordinal;
      return Code::success;
    });
  };
  api.device_get_name = [](char* name, int room, cuda::DeviceNumber device) {
    return about("cuDeviceGetName", device, [&](FakeCall&, const FakeGpu& gpu) {
      std::snprintf(name, static_cast<std::size_t>(room), "%s", gpu.name.c_str());
      return Code::success;
    });
  };
  api.device_get_uuid = [](cuda::Uuid* uuid, cuda::DeviceNumber device) {
    return about("cuDeviceGetUuid", device, [&](FakeCall&, const FakeGpu&) {
      for (std::size_t i = 0; i < uuid->bytes.size(); ++i) {
        uuid->bytes[i] = static_cast<char>(0xF0 + i + static_cast<std::size_t>(device) * 16);
      }
      return Code::success;
    });
  };
  api.device_get_pci_bus_id = [](char* id, int room, cuda::DeviceNumber device) {
    return about("cuDeviceGetPCIBusId", device, [&](FakeCall&, const FakeGpu&) {
      std::snprintf(id, static_cast<std::size_t>(room), "0000:%02x:00.0", static_cast<unsigned>(device) + 0x1a);
      return Code::success;
    });
  };
  api.device_get_attribute = [](int* value, cuda::Attribute attribute, cuda::DeviceNumber device) {
    return about("cuDeviceGetAttribute", device, [&](FakeCall&, const FakeGpu& gpu) { return attribute_of(gpu, attribute, value); });
  };
  api.device_total_mem = [](std::size_t* bytes, cuda::DeviceNumber device) {
    return about("cuDeviceTotalMem", device, [&](FakeCall&, const FakeGpu& gpu) {
      *bytes = gpu.memory_bytes;
      return Code::success;
    });
  };
  api.device_can_access_peer = [](int* can, cuda::DeviceNumber device, cuda::DeviceNumber peer) {
    return about("cuDeviceCanAccessPeer", device, [&](FakeCall& call, const FakeGpu&) {
      *can = call.state.config.peers && device != peer ? 1 : 0;
      return Code::success;
    });
  };
}

void add_contexts(cuda::DriverApi& api) {
  api.primary_ctx_retain = [](cuda::ContextHandle* context, cuda::DeviceNumber device) {
    return about("cuDevicePrimaryCtxRetain", device, [&](FakeCall& call, const FakeGpu& gpu) {
      const auto index = static_cast<std::size_t>(device);
      auto& primary = call.state.primaries[index];
      if (!primary || primary->references == 0) {
        if (gpu.context_bytes > gpu.memory_bytes - call.state.used[index]) {
          return Code::out_of_memory;
        }
        primary = std::make_shared<FakeContext>();
        primary->gpu = device;
        call.state.used[index] += gpu.context_bytes;
        call.state.contexts[call.state.new_handle()] = primary;
      }
      ++primary->references;
      const auto found = std::ranges::find_if(call.state.contexts, [&](const auto& each) { return each.second == primary; });
      *context = handle<cuda::ContextHandle>(found->first);
      return Code::success;
    });
  };
  api.primary_ctx_release = [](cuda::DeviceNumber device) {
    return about("cuDevicePrimaryCtxRelease", device, [&](FakeCall& call, const FakeGpu& gpu) {
      const auto index = static_cast<std::size_t>(device);
      const auto& primary = call.state.primaries[index];
      if (!primary || primary->references == 0) {
        call.state.violation("a context released that was not retained");
        return Code::invalid_context;
      }
      if (--primary->references == 0) {  // what was made in it goes with it
        call.state.used[index] -= gpu.context_bytes;
        std::erase_if(call.state.memory, [&](const auto& each) {
          if (each.second->gpu != device) {
            return false;
          }
          call.state.used[index] -= each.second->bytes;
          return true;
        });
      }
      return Code::success;
    });
  };
  api.ctx_set_current = [](cuda::ContextHandle context) {
    return fake_call("cuCtxSetCurrent", FakeNeeds::init, [&](FakeCall& call) {
      if (context != nullptr && !call.state.contexts.contains(number(context))) {
        return Code::invalid_context;
      }
      fake_set_current(call.state, number(context));
      return Code::success;
    });
  };
  api.ctx_enable_peer_access = [](cuda::ContextHandle peer, unsigned /*flags*/) {
    return fake_call("cuCtxEnablePeerAccess", FakeNeeds::context, [&](FakeCall& call) {
      const auto found = call.state.contexts.find(number(peer));
      if (found == call.state.contexts.end() || found->second == call.context) {
        return Code::invalid_context;
      }
      if (!call.state.config.peers) {
        return Code::peer_access_unsupported;
      }
      return call.context->peers.insert(found->second->gpu).second ? Code::success : Code::peer_access_already_enabled;
    });
  };
}

}  // namespace

void add_fake_devices(cuda::DriverApi& api) {
  add_start(api);
  add_facts(api);
  add_contexts(api);
}

}  // namespace kime::test
