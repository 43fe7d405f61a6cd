// CUDA graphs: what an executable graph will launch is read when it is instantiated or updated, and recorded whenever
// it is launched.
#ifndef NCU_SWIZZLE_GRAPHS_H
#define NCU_SWIZZLE_GRAPHS_H

#include "launching.h"

enum { DEEPEST_GRAPH = 8 };

typedef struct Node {
    Handle node;
    Launch launch;
    struct Node *next;
} Node;

typedef struct Graph {
    Handle executable;
    Node *first, **last;
    const char *beyond;  // what of it is not followed; NULL if all is
    int noted;  // that something is not
    int work;  // nodes that may write memory, so far
    struct Graph *next;
} Graph;

static Graph *graphs;

static void free_nodes(Graph *graph) {
    for (Node *node = graph->first; node;) {
        Node *next = node->next;
        free(node->launch.parameters);
        free(node);
        node = next;
    }
    graph->first = NULL;
    graph->last = &graph->first;
    graph->work = 0;
    graph->beyond = NULL;
    graph->noted = 0;
}

static Graph *graph_of(Handle executable, int create) {
    Graph *graph = graphs;
    while (graph && graph->executable != executable) {
        graph = graph->next;
    }
    if (!graph && create && (graph = calloc(1, sizeof *graph))) {
        graph->executable = executable;
        graph->last = &graph->first;
        graph->next = graphs;
        graphs = graph;
    }
    return graph;
}

// Copies the values of a node's parameters: they may change or vanish before the graph is launched.
static void **own_parameters(Handle function, void **given, void **extra) {
    size_t offset, size, count = 0, bytes = 0, packed_size = 0;
    const unsigned char *packed = given ? NULL : packed_parameters(extra, &packed_size);
    for (; !cuFuncGetParamInfo(function, count, &offset, &size); ++count) {
        bytes += (size + 15) & ~(size_t)15;
    }
    void **own = calloc(1, (count + 1) * sizeof *own + bytes + 16);
    unsigned char *at = own ? (unsigned char *)(own + count + 1) : NULL;
    for (size_t i = 0; own && i < count; ++i) {
        const void *value = NULL;
        cuFuncGetParamInfo(function, i, &offset, &size);
        if (packed && offset + size <= packed_size) {
            value = packed + offset;
        } else if (given) {
            value = given[i];
        }
        if (value) {
            memcpy(at, value, size);
            own[i] = at;
        }
        at += (size + 15) & ~(size_t)15;
    }
    return own;
}

static void set_kernel(Launch *launch, const KernelNode *node) {
    Handle function = NULL, module = NULL;
    Handle given = node->function ? node->function : node->kernel;
    free(launch->parameters);
    launch->parameters = NULL;
    launch->function = given;
    launch->shape = node->shape;
    if (!resolve(given, &function, &module)) {
        launch->function = function;
        launch->parameters = own_parameters(function, node->parameters, node->extra);
    }
}

static void read_nodes(Graph *graph, Handle from, int depth);

static void read_node(Graph *graph, Handle handle, int depth) {
    int type = -1;
    Handle child = NULL;
    KernelNode kernel = {0};
    cuGraphNodeGetType(handle, &type);
    if (type == NODE_GRAPH && !cuGraphChildGraphNodeGetGraph(handle, &child)) {
        read_nodes(graph, child, depth + 1);
    } else if (type == NODE_KERNEL && !cuGraphKernelNodeGetParams_v2(handle, &kernel)) {
        Node *node = calloc(1, sizeof *node);
        if (!node) {
            return;
        }
        LaunchAttribute cluster = {0};
        node->node = handle;
        node->launch.graph = 1;
        node->launch.unknown = graph->work ? "earlier nodes of its CUDA graph may write it" : NULL;
        set_kernel(&node->launch, &kernel);
        if (!cuGraphKernelNodeGetAttribute(handle, ATTRIBUTE_CLUSTER, &cluster.value)) {
            memcpy(node->launch.cluster, cluster.value.cluster, sizeof node->launch.cluster);
        }
        *graph->last = node;
        graph->last = &node->next;
    } else if (type == NODE_KERNEL || type == NODE_CONDITIONAL) {
        graph->beyond = "what its conditional nodes launch";
    }
    graph->work += type != NODE_EMPTY;
}

// Returns whether all nodes that a node depends on are among the first `count` of `done`.
static int is_ready(Handle node, Handle *done, size_t count) {
    Handle before[256];
    uint64_t edges[256];
    size_t number = 256;
    if (cuGraphNodeGetDependencies_v2(node, before, edges, &number)) {
        return 1;
    }
    for (size_t i = 0; i < number && i < 256; ++i) {
        size_t at = 0;
        while (at < count && done[at] != before[i]) {
            ++at;
        }
        if (at == count) {
            return 0;
        }
    }
    return 1;
}

// Reads the kernels of a graph in an order in which they can run.
static void read_nodes(Graph *graph, Handle from, int depth) {
    size_t count = 0;
    if (depth > DEEPEST_GRAPH || cuGraphGetNodes(from, NULL, &count) || !count) {
        return;
    }
    Handle *nodes = calloc(2 * count, sizeof *nodes);
    if (!nodes || cuGraphGetNodes(from, nodes, &count)) {
        free(nodes);
        return;
    }
    Handle *done = nodes + count;
    size_t finished = 0, before;
    do {
        before = finished;
        for (size_t i = 0; i < count; ++i) {
            if (nodes[i] && is_ready(nodes[i], done, finished)) {
                read_node(graph, nodes[i], depth);
                done[finished++] = nodes[i];
                nodes[i] = NULL;
            }
        }
    } while (finished < count && finished > before);
    free(nodes);
}

static void on_graph_call(const CallbackData *call) {
    const char *name = call->function;
    const void *given = call->parameters;
    if (call->site == ENTER || *(int *)call->returned) {
        return;
    }
    HOLD_LOCK;
    if (!strncmp(name, "cuGraphInstantiate", 18) || !strncmp(name, "cuGraphExecUpdate", 17)) {
        int update = name[7] == 'E';
        Handle executable = update ? ((const GraphUpdate *)given)->executable : *((const GraphInstantiate *)given)->executable;
        Graph *graph = graph_of(executable, 1);
        if (graph) {
            free_nodes(graph);
            read_nodes(graph, update ? ((const GraphUpdate *)given)->graph : ((const GraphInstantiate *)given)->graph, 0);
        }
    } else if (!strncmp(name, "cuGraphExecKernelNodeSetParams", 30)) {
        const GraphSetKernel *set = given;
        Graph *graph = graph_of(set->executable, 0);
        for (Node *node = graph ? graph->first : NULL; node; node = node->next) {
            if (node->node == set->node) {
                set_kernel(&node->launch, set->parameters);
            }
        }
    } else {
        Graph *graph = graph_of(*(const Handle *)given, 0);
        if (graph && !strcmp(name, "cuGraphExecDestroy")) {
            free_nodes(graph);
        } else if (graph) {
            graph->beyond = "how its nodes were changed";
            graph->noted = 0;
        }
    }
}

static void on_graph_launch(Handle executable, int capturing) {
    if (capturing) {
        return;  // it becomes a child of another graph
    }
    HOLD_LOCK;
    memset(&in_call, 0, sizeof in_call);
    Graph *graph = graph_of(executable, 0);
    if (!graph && (graph = graph_of(executable, 1))) {
        graph->beyond = "what it holds";
    }
    if (graph && graph->beyond && !graph->noted) {
        note("a CUDA graph was launched, of which is not known %s", graph->beyond);
        graph->noted = 1;
    }
    for (Node *node = graph ? graph->first : NULL; node && !graph->beyond; node = node->next) {
        record(&node->launch);
    }
}

#endif
