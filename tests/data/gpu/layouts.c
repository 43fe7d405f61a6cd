/* Held against the headers of CUDA and CUPTI: what capture/driver.h declares of them. */
#include <cuda.h>
#include <cupti.h>
#include "driver.h"
#define SAME(ours, mine, theirs, its) _Static_assert( \
    offsetof(ours, mine) == offsetof(theirs, its) && \
    sizeof(((ours *)0)->mine) == sizeof(((theirs *)0)->its), #ours "." #mine)
SAME(CallbackData, site, CUpti_CallbackData, callbackSite);
SAME(CallbackData, function, CUpti_CallbackData, functionName);
SAME(CallbackData, parameters, CUpti_CallbackData, functionParams);
SAME(CallbackData, returned, CUpti_CallbackData, functionReturnValue);
SAME(CallbackData, symbol, CUpti_CallbackData, symbolName);
SAME(ResourceData, descriptor, CUpti_ResourceData, resourceDescriptor);
SAME(LoadedModule, size, CUpti_ModuleResourceData, cubinSize);
SAME(LoadedModule, cubin, CUpti_ModuleResourceData, pCubin);
SAME(LaunchKernel, stream, cuLaunchKernel_params, hStream);
SAME(LaunchKernel, extra, cuLaunchKernel_params, extra);
SAME(LaunchKernel, parameters, cuLaunchCooperativeKernel_params, kernelParams);
SAME(LaunchKernelEx, config, cuLaunchKernelEx_params, config);
SAME(LaunchKernelEx, extra, cuLaunchKernelEx_params, extra);
SAME(LaunchConfig, stream, CUlaunchConfig, hStream);
SAME(LaunchConfig, attributes, CUlaunchConfig, attrs);
SAME(LaunchConfig, count, CUlaunchConfig, numAttrs);
SAME(LaunchAttribute, value, CUlaunchAttribute, value);
SAME(KernelNode, parameters, CUDA_KERNEL_NODE_PARAMS, kernelParams);
SAME(KernelNode, kernel, CUDA_KERNEL_NODE_PARAMS, kern);
SAME(GraphLaunch, stream, cuGraphLaunch_params, hStream);
SAME(GraphInstantiate, graph, cuGraphInstantiateWithFlags_params, hGraph);
SAME(GraphUpdate, graph, cuGraphExecUpdate_v2_params, hGraph);
SAME(GraphSetKernel, parameters, cuGraphExecKernelNodeSetParams_v2_params, nodeParams);
_Static_assert(sizeof(KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS), "KernelNode");
_Static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute), "LaunchAttribute");
_Static_assert(RESOURCE_MODULE_LOADED == CUPTI_CBID_RESOURCE_MODULE_LOADED, "module loaded");
_Static_assert(DOMAIN_RESOURCE == CUPTI_CB_DOMAIN_RESOURCE && DOMAIN_DRIVER == CUPTI_CB_DOMAIN_DRIVER_API, "domains");
_Static_assert(ATTRIBUTE_CLUSTER == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, "cluster");
_Static_assert(NODE_EMPTY == CU_GRAPH_NODE_TYPE_EMPTY && NODE_GRAPH == CU_GRAPH_NODE_TYPE_GRAPH, "nodes");
