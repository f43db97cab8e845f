// The part of the CUDA driver API that kime uses, in declarations of its own: no CUDA header is needed to build kime, and no CUDA library
// to start it. Names, values and signatures are those of CUDA 12.4 and 13; a test holds them against cuda.h where there is one.
#pragma once

#include <array>
#include <cstddef>

namespace kime::cuda {

/// The oldest version of the driver that will do, as the driver counts: 1000 times the major number, 10 times the minor one.
inline constexpr int kNeededVersion = 12040;

/// CUresult. Those that kime decides by; all others are passed on by the driver's own names.
enum class Code : unsigned {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  ecc_uncorrectable = 214,
  peer_access_unsupported = 217,
  nvlink_uncorrectable = 220,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  peer_access_already_enabled = 704,
  peer_access_not_enabled = 705,
  context_is_destroyed = 709,
  assert = 710,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  not_supported = 801,
  stream_capture_unsupported = 900,
  stream_capture_invalidated = 901,
  stream_capture_unmatched = 903,
  stream_capture_isolation = 905,
  captured_event = 907,
  stream_capture_wrong_thread = 908,
  unknown = 999,
};

/// CUdevice_attribute.
enum class Attribute : unsigned {
  max_threads_per_block = 1,
  clock_khz = 13,
  multiprocessors = 16,
  compute_major = 75,
  compute_minor = 76,
  shared_bytes_per_block_optin = 97,
};

/// CUfunction_attribute.
enum class FunctionAttribute : unsigned {
  max_threads_per_block = 0,
  static_shared_bytes = 1,
  local_bytes = 3,
  registers = 4,
  max_dynamic_shared_bytes = 8,
};

/// CUstreamCaptureMode.
enum class CaptureMode : unsigned { global = 0, thread_local_ = 1, relaxed = 2 };

/// CUstreamCaptureStatus.
enum class CaptureStatus : unsigned { none = 0, active = 1, invalidated = 2 };

/// CUdriverProcAddressQueryResult.
enum class SymbolStatus : unsigned { found = 0, not_found = 1, version_too_old = 2 };

inline constexpr unsigned kStreamNonBlocking = 0x1;    ///< CU_STREAM_NON_BLOCKING
inline constexpr unsigned kEventBlockingSync = 0x1;    ///< CU_EVENT_BLOCKING_SYNC
inline constexpr unsigned kEventDisableTiming = 0x2;   ///< CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kHostPortable = 0x1;         ///< CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kHostDeviceMap = 0x2;        ///< CU_MEMHOSTALLOC_DEVICEMAP
inline constexpr unsigned long long kProcDefault = 0;  ///< CU_GET_PROC_ADDRESS_DEFAULT: legacy default streams, of which none is used

/// CUdevice, CUdeviceptr, CUuuid, and the driver's handles, which point to what nobody here sees.
using DeviceNumber = int;
using DeviceAddress = unsigned long long;
struct Uuid {
  std::array<char, 16> bytes;
};
using ContextHandle = struct ContextTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using ModuleHandle = struct ModuleTag*;
using FunctionHandle = struct FunctionTag*;
using GraphHandle = struct GraphTag*;
using GraphExecHandle = struct GraphExecTag*;

/// cuGetProcAddress: since 12.0, and as 11.3 had it.
using GetProcAddress = Code (*)(const char* symbol, void** found, int version, unsigned long long flags, SymbolStatus* status);
using OldGetProcAddress = Code (*)(const char* symbol, void** found, int version, unsigned long long flags);

/// The functions. A member is the function of its name with "cu" before it; for_each_function() says which.
struct DriverApi {
  Code (*init)(unsigned flags) = nullptr;
  Code (*driver_get_version)(int* version) = nullptr;
  Code (*get_error_name)(Code code, const char** name) = nullptr;
  Code (*get_error_string)(Code code, const char** text) = nullptr;

  Code (*device_get_count)(int* count) = nullptr;
  Code (*device_get)(DeviceNumber* device, int ordinal) = nullptr;
  Code (*device_get_name)(char* name, int room, DeviceNumber device) = nullptr;
  Code (*device_get_uuid)(Uuid* uuid, DeviceNumber device) = nullptr;
  Code (*device_get_pci_bus_id)(char* id, int room, DeviceNumber device) = nullptr;
  Code (*device_get_attribute)(int* value, Attribute attribute, DeviceNumber device) = nullptr;
  Code (*device_total_mem)(std::size_t* bytes, DeviceNumber device) = nullptr;
  Code (*device_can_access_peer)(int* can, DeviceNumber device, DeviceNumber peer) = nullptr;

  Code (*primary_ctx_retain)(ContextHandle* context, DeviceNumber device) = nullptr;
  Code (*primary_ctx_release)(DeviceNumber device) = nullptr;
  Code (*ctx_set_current)(ContextHandle context) = nullptr;
  Code (*ctx_enable_peer_access)(ContextHandle peer, unsigned flags) = nullptr;

  Code (*mem_get_info)(std::size_t* free, std::size_t* total) = nullptr;
  Code (*mem_alloc)(DeviceAddress* address, std::size_t bytes) = nullptr;
  Code (*mem_free)(DeviceAddress address) = nullptr;
  Code (*mem_host_alloc)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
  Code (*mem_host_get_device_pointer)(DeviceAddress* address, void* memory, unsigned flags) = nullptr;
  Code (*mem_free_host)(void* memory) = nullptr;
  Code (*memset_d8_async)(DeviceAddress to, unsigned char value, std::size_t bytes, StreamHandle stream) = nullptr;
  Code (*memcpy_async)(DeviceAddress to, DeviceAddress from, std::size_t bytes, StreamHandle stream) = nullptr;
  Code (*memcpy_htod_async)(DeviceAddress to, const void* from, std::size_t bytes, StreamHandle stream) = nullptr;
  Code (*memcpy_dtoh_async)(void* to, DeviceAddress from, std::size_t bytes, StreamHandle stream) = nullptr;
  Code (*memcpy_peer_async)(DeviceAddress to, ContextHandle to_context, DeviceAddress from, ContextHandle from_context, std::size_t bytes,
                            StreamHandle stream) = nullptr;

  Code (*stream_create)(StreamHandle* stream, unsigned flags) = nullptr;
  Code (*stream_destroy)(StreamHandle stream) = nullptr;
  Code (*stream_synchronize)(StreamHandle stream) = nullptr;
  Code (*stream_wait_event)(StreamHandle stream, EventHandle event, unsigned flags) = nullptr;
  Code (*event_create)(EventHandle* event, unsigned flags) = nullptr;
  Code (*event_destroy)(EventHandle event) = nullptr;
  Code (*event_record)(EventHandle event, StreamHandle stream) = nullptr;
  Code (*event_query)(EventHandle event) = nullptr;
  Code (*event_synchronize)(EventHandle event) = nullptr;

  Code (*module_load_data)(ModuleHandle* module, const void* image) = nullptr;
  Code (*module_unload)(ModuleHandle module) = nullptr;
  Code (*module_get_function)(FunctionHandle* function, ModuleHandle module, const char* name) = nullptr;
  Code (*func_get_attribute)(int* value, FunctionAttribute attribute, FunctionHandle function) = nullptr;
  Code (*func_set_attribute)(FunctionHandle function, FunctionAttribute attribute, int value) = nullptr;
  Code (*launch_kernel)(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** parameters, void** extra) = nullptr;

  Code (*stream_begin_capture)(StreamHandle stream, CaptureMode mode) = nullptr;
  Code (*stream_end_capture)(StreamHandle stream, GraphHandle* graph) = nullptr;
  Code (*stream_is_capturing)(StreamHandle stream, CaptureStatus* status) = nullptr;
  Code (*graph_instantiate)(GraphExecHandle* exec, GraphHandle graph, unsigned long long flags) = nullptr;
  Code (*graph_upload)(GraphExecHandle exec, StreamHandle stream) = nullptr;
  Code (*graph_launch)(GraphExecHandle exec, StreamHandle stream) = nullptr;
  Code (*graph_exec_destroy)(GraphExecHandle exec) = nullptr;
  Code (*graph_destroy)(GraphHandle graph) = nullptr;
};

/// Calls `with(name, member)` for each function: the name as cuGetProcAddress knows it, which for version 12.4 means the newest of the
/// forms that cuda.h calls so ("cuMemAlloc" is cuMemAlloc_v2), and the member of `api`.
template <class Api, class With>
void for_each_function(Api& api, With&& with) {
  with("cuInit", api.init);
  with("cuDriverGetVersion", api.driver_get_version);
  with("cuGetErrorName", api.get_error_name);
  with("cuGetErrorString", api.get_error_string);
  with("cuDeviceGetCount", api.device_get_count);
  with("cuDeviceGet", api.device_get);
  with("cuDeviceGetName", api.device_get_name);
  with("cuDeviceGetUuid", api.device_get_uuid);
  with("cuDeviceGetPCIBusId", api.device_get_pci_bus_id);
  with("cuDeviceGetAttribute", api.device_get_attribute);
  with("cuDeviceTotalMem", api.device_total_mem);
  with("cuDeviceCanAccessPeer", api.device_can_access_peer);
  with("cuDevicePrimaryCtxRetain", api.primary_ctx_retain);
  with("cuDevicePrimaryCtxRelease", api.primary_ctx_release);
  with("cuCtxSetCurrent", api.ctx_set_current);
  with("cuCtxEnablePeerAccess", api.ctx_enable_peer_access);
  with("cuMemGetInfo", api.mem_get_info);
  with("cuMemAlloc", api.mem_alloc);
  with("cuMemFree", api.mem_free);
  with("cuMemHostAlloc", api.mem_host_alloc);
  with("cuMemHostGetDevicePointer", api.mem_host_get_device_pointer);
  with("cuMemFreeHost", api.mem_free_host);
  with("cuMemsetD8Async", api.memset_d8_async);
  with("cuMemcpyAsync", api.memcpy_async);
  with("cuMemcpyHtoDAsync", api.memcpy_htod_async);
  with("cuMemcpyDtoHAsync", api.memcpy_dtoh_async);
  with("cuMemcpyPeerAsync", api.memcpy_peer_async);
  with("cuStreamCreate", api.stream_create);
  with("cuStreamDestroy", api.stream_destroy);
  with("cuStreamSynchronize", api.stream_synchronize);
  with("cuStreamWaitEvent", api.stream_wait_event);
  with("cuEventCreate", api.event_create);
  with("cuEventDestroy", api.event_destroy);
  with("cuEventRecord", api.event_record);
  with("cuEventQuery", api.event_query);
  with("cuEventSynchronize", api.event_synchronize);
  with("cuModuleLoadData", api.module_load_data);
  with("cuModuleUnload", api.module_unload);
  with("cuModuleGetFunction", api.module_get_function);
  with("cuFuncGetAttribute", api.func_get_attribute);
  with("cuFuncSetAttribute", api.func_set_attribute);
  with("cuLaunchKernel", api.launch_kernel);
  with("cuStreamBeginCapture", api.stream_begin_capture);
  with("cuStreamEndCapture", api.stream_end_capture);
  with("cuStreamIsCapturing", api.stream_is_capturing);
  with("cuGraphInstantiateWithFlags", api.graph_instantiate);  // "cuGraphInstantiate" has other parameters in older versions
  with("cuGraphUpload", api.graph_upload);
  with("cuGraphLaunch", api.graph_launch);
  with("cuGraphExecDestroy", api.graph_exec_destroy);
  with("cuGraphDestroy", api.graph_destroy);
}

}  // namespace kime::cuda
