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
    pthread_mutex_lock(&mutex);
    if (write_file('c', cubins, loaded->cubin, loaded->size)) {
        fprintf(record_file, "{\"is\": \"cubin\", \"number\": %u, \"bytes\": %zu}\n", cubins, loaded->size);
        ++cubins;
        if (with_memory) {
            each_variable((const unsigned char *)loaded->cubin, loaded->size, keep_variable, NULL);
        }
    } else {
        note("a cubin of %zu bytes could not be written", loaded->size);
    }
    pthread_mutex_unlock(&mutex);
}

// Around cuModuleLoad…: the cubins that were loaded meanwhile by this thread are the module's.
static void on_load(const CallbackData *call, Handle *module) {
    if (call->site == ENTER) {
        cubins_before = cubins;
    } else if (module && *(int *)call->returned == 0) {
        pthread_mutex_lock(&mutex);
        fprintf(record_file, "{\"is\": \"load\", \"module\": %llu, \"from\": %u, \"to\": %u}\n",
                (unsigned long long)(uintptr_t)*module, cubins_before, cubins);
        pthread_mutex_unlock(&mutex);
    }
}

static void on_unload(Handle handle) {
    pthread_mutex_lock(&mutex);
    for (Module **at = &modules; *at;) {
        Module *module = *at;
        if (handle && module->handle != handle) {
            at = &module->next;
            continue;
        }
        *at = module->next;
        free(module);  // its names stay: some 100 bytes a module
    }
    pthread_mutex_unlock(&mutex);
}

static void write_functions(Handle handle) {
    unsigned count = 0;
    if (cuModuleGetFunctionCount(&count, handle) || !count) {
        return;
    }
    Handle *functions = calloc(count, sizeof *functions);
    if (functions && !cuModuleEnumerateFunctions(functions, count, handle)) {
        for (unsigned i = 0; i < count; ++i) {
            const char *name = NULL;
            fputs(i ? ", " : "", record_file);
            write_text(cuFuncGetName(&name, functions[i]) || !name ? "" : name);
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
    fprintf(record_file, "{\"is\": \"module\", \"number\": %u, \"handle\": %llu, \"cubins\": %u, \"functions\": [",
            module->number, (unsigned long long)(uintptr_t)handle, cubins);
    write_functions(handle);
    fputs("]}\n", record_file);
    for (int i = 0; i < variable_names.count; ++i) {
        DevicePointer address;
        size_t bytes;
        if (!cuModuleGetGlobal_v2(&address, &bytes, handle, variable_names.items[i])) {
            add_name(&module->variables, variable_names.items[i]);
        }
    }
    return module;
}

static void write_variables(const Module *module, const char *unknown) {
    Variables variables = {module->handle, "", unknown};
    fputs(", \"variables\": [", record_file);
    for (int i = 0; i < module->variables.count; ++i) {
        write_variable(module->variables.items[i], &variables);
    }
    fputc(']', record_file);
}

#endif
