// Which launches are recorded: by the function's own name, and only so many.
#ifndef NCU_SWIZZLE_FILTER_H
#define NCU_SWIZZLE_FILTER_H

#include <regex.h>

#include "log.h"

static long long most_launches;
static long long launches_seen, launches_kept;
static const char *wanted_name;  // empty for all
static regex_t wanted_pattern;
static int has_pattern;

// Returns the function's own name in a mangled one, without namespaces, template arguments and parameters.
static void base_name(const char *mangled, char *out, size_t room) {
    snprintf(out, room, "%s", mangled);
    if (strncmp(mangled, "_Z", 2)) {
        return;
    }
    int nested = mangled[2] == 'N';
    const char *at = mangled + 2 + nested;
    while (*at) {
        if (*at == 'L') {
            ++at;  // internal linkage
        } else if (!strncmp(at, "St", 2)) {
            at += 2;
        } else if (*at >= '1' && *at <= '9') {
            char *rest;
            long length = strtol(at, &rest, 10);
            if (length <= 0 || (size_t)length > strlen(rest)) {
                return;
            }
            snprintf(out, room, "%.*s", (int)length, rest);
            at = rest + length;
            if (!nested) {
                return;  // what follows are parameters
            }
        } else {
            return;  // template arguments or parameters
        }
    }
}

static int is_wanted(const char *mangled) {
    char name[LONGEST_NAME];
    base_name(mangled, name, sizeof name);
    if (has_pattern) {
        return regexec(&wanted_pattern, name, 0, NULL, 0) == 0;
    }
    return !*wanted_name || !strcmp(wanted_name, name) || !strcmp(wanted_name, mangled);
}

static int is_full(void) {
    return launches_kept >= most_launches;
}

// Reads the filter from the environment; returns what is wrong with it, or NULL.
static const char *read_filter(void) {
    most_launches = atoll(setting("NCU_SWIZZLE_CAPTURE_COUNT", "32"));
    wanted_name = strdup(setting("NCU_SWIZZLE_CAPTURE_NAME", ""));
    const char *pattern = setting("NCU_SWIZZLE_CAPTURE_PATTERN", "");
    has_pattern = *pattern != 0;
    if (has_pattern && regcomp(&wanted_pattern, pattern, REG_EXTENDED | REG_NOSUB)) {
        return "the expression of -k is not a POSIX extended regular expression";
    }
    return NULL;
}

// Writes why nothing can be recorded.
static void write_problem(const char *problem) {
    fputs("{\"is\": \"problem\", \"text\": ", record_file);
    write_text(problem);
    fputs("}\n", record_file);
    fflush(record_file);
}

static void finish(void) {
    if (record_file) {
        fprintf(record_file, "{\"is\": \"end\", \"seen\": %lld, \"kept\": %lld}\n", launches_seen, launches_kept);
        fflush(record_file);
    }
}

#endif
