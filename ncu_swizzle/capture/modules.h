// Loaded modules: which cubins there are, and what tells a module's cubin from the others.
#ifndef NCU_SWIZZLE_MODULES_H
#define NCU_SWIZZLE_MODULES_H

#include "recording.h"

typedef struct Names {
    char **items;
    int count, room;
} Names;

typedef struct Module {
    Handle handle;
    unsigned number;
    Names variables;
    struct Module *next;
} Module;

static Names variable_names;  // of all cubins
static Module *modules;
static unsigned modules_seen;
static __thread unsigned cubins_before;  // the call that this thread is in

static void add_name(Names *names, const char *name) {
    for (int i = 0; i < names->count; ++i) {
        if (!strcmp(names->items[i], name)) {
            return;
        }
    }
    if (names->count == names->room) {
        int room = names->room ? 2 * names->room : 16;
        char **items = realloc(names->items, (size_t)room * sizeof *items);
        if (!items) {
            return;
        }
        names->items = items;
        names->room = room;
    }
    if ((names->items[names->count] = strdup(name))) {
        ++names->count;
    }
}

static void keep_variable(const char *name, void *with) {
    (void)with;
    add_name(&variable_names, name);
}

static void on_module_loaded(const ResourceData *resource) {
    const LoadedModule *loaded = resource->descriptor;
    if (!loaded || !loaded->cubin || !loaded->size) {
        return;
    }
    HOLD_LOCK;
    FileName name;
    Event event;
    if (!write_file(&name, 'c', cubins, loaded->cubin, loaded->size)) {
        note("a cubin of %zu bytes could not be written", loaded->size);
        return;
    }
    begin_event(&event, "cubin");
    put(", \"number\": %u, \"bytes\": %zu, \"file\": \"%s\"", cubins++, loaded->size, name.text);
    end_event();
    if (with_memory) {
        each_variable((const unsigned char *)loaded->cubin, loaded->size, keep_variable, NULL);
    }
}

// Around cuModuleLoad…: the cubins that were loaded meanwhile by this thread are the module's.
static void on_load(const CallbackData *call, Handle *module) {
    Event event;
    if (call->site == ENTER) {
        cubins_before = cubins;
    } else if (module && *(int *)call->returned == 0) {
        HOLD_LOCK;
        begin_event(&event, "load");
        put(", \"module\": %llu, \"from\": %u, \"to\": %u", (unsigned long long)(uintptr_t)*module, cubins_before, cubins);
        end_event();
    }
}

static void on_unload(Handle handle) {
    HOLD_LOCK;
    for (Module **at = &modules; *at;) {
        Module *module = *at;
        if (handle && module->handle != handle) {
            at = &module->next;
            continue;
        }
        *at = module->next;
        free(module);  // its names stay: some 100 bytes a module
    }
}

static void put_functions(Handle handle) {
    unsigned count = 0;
    if (cuModuleGetFunctionCount(&count, handle) || !count) {
        return;
    }
    Handle *functions = calloc(count, sizeof *functions);
    if (functions && !cuModuleEnumerateFunctions(functions, count, handle)) {
        for (unsigned i = 0; i < count; ++i) {
            const char *name = NULL;
            put("%s", i ? ", " : "");
            put_text(cuFuncGetName(&name, functions[i]) || !name ? "" : name);
        }
    }
    free(functions);
}

// Returns what is known of a module, which is written the first time.
static Module *module_of(Handle handle) {
    for (Module *module = modules; module; module = module->next) {
        if (module->handle == handle) {
            return module;
        }
    }
    Module *module = calloc(1, sizeof *module);
    if (!module) {
        return NULL;
    }
    *module = (Module){handle, modules_seen++, {0}, modules};
    modules = module;
    Event event;
    begin_event(&event, "module");
    put(", \"number\": %u, \"handle\": %llu, \"cubins\": %u, \"functions\": [", module->number,
        (unsigned long long)(uintptr_t)handle, cubins);
    put_functions(handle);
    put("]");
    end_event();
    for (int i = 0; i < variable_names.count; ++i) {
        DevicePointer address;
        size_t bytes;
        if (!cuModuleGetGlobal_v2(&address, &bytes, handle, variable_names.items[i])) {
            add_name(&module->variables, variable_names.items[i]);
        }
    }
    return module;
}

static void put_variables(const Module *module, const char *unknown) {
    Variables variables = {module->handle, "", unknown};
    put(", \"variables\": [");
    for (int i = 0; i < module->variables.count; ++i) {
        put_variable(module->variables.items[i], &variables);
    }
    put("]");
}

#endif
