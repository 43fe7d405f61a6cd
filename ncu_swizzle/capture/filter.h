// Which launches are recorded: by the function's own name, and only so many.
#ifndef NCU_SWIZZLE_FILTER_H
#define NCU_SWIZZLE_FILTER_H

#include <regex.h>

#include "log.h"

static uint64_t most_launches;
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

// Returns whether a launch is among the first that all processes of the capture may record.
static int claim(void) {
    if (count(&counters->claimed, 1) < most_launches) {
        return 1;
    }
    count(&counters->claimed, -(uint64_t)1);
    return 0;
}

// Reads the filter from the environment; returns what is wrong with it, or NULL.
static const char *read_filter(void) {
    most_launches = strtoull(setting("NCU_SWIZZLE_CAPTURE_COUNT", "32"), NULL, 10);
    wanted_name = strdup(setting("NCU_SWIZZLE_CAPTURE_NAME", ""));
    const char *pattern = setting("NCU_SWIZZLE_CAPTURE_PATTERN", "");
    has_pattern = *pattern != 0;
    if (has_pattern && regcomp(&wanted_pattern, pattern, REG_EXTENDED | REG_NOSUB)) {
        has_pattern = 0;
        return "the expression of -k is not a POSIX extended regular expression";
    }
    return NULL;
}

// Launches that CUDA refuses are described as long as there are few; they are counted in any case.
static int refusals;
enum { MOST_REFUSALS = 100 };

// Counts launches that were refused, by the numbers that they got in `seen`; `recorded` of them are in this record.
static void refuse(uint64_t from, uint64_t to, uint64_t recorded, const char *error, const char *kernel) {
    Event refused;
    count(&counters->refused, to - from);
    count(&counters->claimed, -recorded);
    if (!recorded && refusals++ >= MOST_REFUSALS) {
        return;
    }
    begin_event(&refused, "refused");
    put(", \"from\": %llu, \"to\": %llu, \"error\": ", (unsigned long long)from, (unsigned long long)to);
    put_text(error);
    put(", \"kernel\": ");
    put_text(kernel ? kernel : "");
    end_event();
}

// At exit. What ends without it, by _exit, exec or a signal, leaves a record without an end.
static void finish(void) {
    HOLD_LOCK;
    Event end;
    if (*record_name) {
        begin_event(&end, "end");
        end_event();
    }
}

#endif
