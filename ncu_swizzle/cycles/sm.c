// One SM of an H100 that executes what its warps execute; simulator.py builds it and says what is in the arrays.
//
// Each sub-core issues one instruction per cycle, of a warp whose stall count has passed, whose waited scoreboards are
// released, whose code has been fetched and whose pipe is free. Shared units are servers: a request starts when those
// before it are done, and how long it takes is known then. So a warp's next issue is known, unless it waits at a
// barrier whose phase other warps or copies complete.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum Kind {
    FIXED, VARIABLE, SHARED, LOAD, STORE, COPY, COMMIT, GROUP_WAIT, BARRIER, ARRIVE, COPY_ARRIVE, WAIT, BOX, BOX_STORE,
    PRODUCT, PRODUCT_WAIT
};
enum { SUB_CORES = 4, PIPES = 8, SCOREBOARDS = 6, QUEUE = 64, GROUPS = 64, MOST_WARPS = 64, LINE = 8, SECTOR = 32 };
#define GOLDEN 0.6180339887498949 // its multiples, modulo 1, are spread evenly
enum Reason { ISSUED, COUNT, SHORT, LONG, PIPE, NOT_SELECTED, FULL_QUEUE, FETCH, BARRIER_WAIT, REASONS };

typedef struct {
    int kind, stall, sets, frees, waits, pipe, argument, past_l1; // scoreboards: -1 for none; waits is a mask
    double interval, latency, wavefronts, bytes;                  // bytes: of a box; per sector otherwise
} Instruction;

enum { TAIL = 7 }; // points of the distribution of DRAM's latency

typedef struct {
    double core_wave, queue, to_pipe, store_read; // cycles per wavefront of a sub-core; requests under way; from issue
    double l1, l2, dram;                          // latencies, from the last wavefront on
    double l2_bytes, l2_written, dram_bytes;      // per cycle and SM
    double store_bytes, store_line;               // what one SM stores per cycle, cycles for a part of a line
    double dram_read;                             // of what a block loads: parts of lines that it never completes are slow
    double apart_written, line_written;           // the share of what it stores in such parts; cycles of DRAM for each
    double tail[TAIL];                            // by how much the last of 1, 2, 4, 16, 32, 64 and 256 lines is late
    double of_dram, cold, written;                // shares: of bytes from DRAM, of accesses that wait for it; of stores
    double barrier, barrier_warp, block_start;    // until warps go on, and per warp; between two blocks' starts
    double fetch, fetch_interval, fetch_ahead;    // the first line of code, and those behind it; how many are under way
    double jump, far_jump;                        // to a line that is not: 64 or fewer lines away, and 512 or more
    double branch;                                // one that is taken
    double box, box_row;                          // from the issue of a box to its arrival; per row of it
    double removed;                               // the share of the excessive wavefronts that accesses do without
} Machine;

typedef struct {
    const int *at, *detail, *end;
    int block, sub_core, groups, products, phase, reason;
    int slow;            // the scoreboards that L1 releases, as a mask
    int awaited, tested; // the phase that was asked for, -1 for none, and the scoreboard that tells when it is complete
    double born, ready, since, scoreboard[SCOREBOARDS], group[GROUPS], copies, product;
} Warp;

typedef struct {
    int left;
    int *parts;
    double *time;
} Block;

typedef struct {
    const int *numbers, *details, *starts, *parts;
    int warps, phases, blocks, resident;
} Launch;

static double later(double a, double b) { return a > b ? a : b; }

static void begin(Warp *warp, const Launch *launch, int place, int number, double when) {
    memset(warp, 0, sizeof *warp);
    warp->at = launch->numbers + launch->starts[number], warp->detail = launch->details + launch->starts[number];
    warp->end = launch->numbers + launch->starts[number + 1];
    warp->block = place, warp->sub_core = (place * launch->warps + number) % SUB_CORES;
    warp->born = warp->ready = warp->since = when, warp->phase = warp->awaited = -1;
    if (warp->at == warp->end) warp->at = NULL;
}

static void renew(Block *block, const Launch *launch, const Warp *warps) {
    block->left = 0;
    for (int number = 0; number < launch->warps; ++number) block->left += warps[number].at != NULL;
    memcpy(block->parts, launch->parts, launch->phases * sizeof(int));
    memset(block->time, 0, launch->phases * sizeof(double));
}

// One more arrival or copy of a phase, at that time; the last one lets the warps go on that wait for it.
static void signal(Block *block, int phase, double when, Warp *warps, int count, double delay) {
    if (phase < 0) return;
    block->time[phase] = later(block->time[phase], when);
    if (--block->parts[phase] > 0) return;
    for (int number = 0; number < count; ++number)
        if (warps[number].at && warps[number].phase == phase) {
            warps[number].phase = -1;
            warps[number].ready = later(warps[number].ready, block->time[phase] + delay);
        }
}

// A warp waits for that reason until then.
static void credit(double *reasons, enum Reason reason, double *since, double until) {
    if (until <= *since) return;
    reasons[reason] += until - *since, *since = until;
}

// A scoreboard is released at that time, by L1 or not: as ncu tells long scoreboards from short ones.
static void release(Warp *warp, int board, double when, int slow) {
    if (board < 0 || warp->scoreboard[board] > when) return;
    warp->scoreboard[board] = when;
    warp->slow = slow ? warp->slow | 1 << board : warp->slow & ~(1 << board);
}

// Return how much later than usual the last of some lines comes from DRAM; `drawn`, in (0, 1), says which of all cases.
static double late(const Machine *m, double lines, double drawn) {
    static const double at[TAIL] = {1, 1.585, 2.322, 4.087, 5.044, 6.022, 8.006}; // log2(lines + 1)
    double x = -log2(1 - pow(drawn, 1 / lines) + 1e-12);
    if (x <= at[0]) return m->tail[0];
    for (int point = 1; point < TAIL; ++point)
        if (x < at[point])
            return m->tail[point - 1] +
                   (m->tail[point] - m->tail[point - 1]) * (x - at[point - 1]) / (at[point] - at[point - 1]);
    return m->tail[TAIL - 1];
}

// Return the wavefronts of an access: as executed, or else the mean of all executions; without that share of what is more
// than ideal. Fractions are owed. An access that no lane does takes as long as one wavefront.
static double wavefronts_of(const Instruction *op, int detail, double *owed, double removed) {
    int lines = detail >> 8 & 255, sectors = detail >> 16 & 255, copied = detail >> 24;
    if (op->argument) return 1; // SHFL
    double waves = op->wavefronts, ideal = waves;
    if (op->kind == SHARED && detail) waves = (detail & 0xffff) - 1, ideal = detail >> 16;
    if (op->kind == COPY && copied) waves = copied, ideal = (sectors + 3) / 4;
    if (op->kind == SHARED || op->kind == COPY) {
        *owed += later(waves, 1) - removed * later(waves - later(ideal, 1), 0);
        waves = floor(*owed + 1e-9);
        *owed -= waves;
    }
    return later(later(waves, op->kind == SHARED ? 0 : lines), 1);
}

// Return the cycles that the launch takes on one SM; busy: cycles of each unit; stalled: cycles of warps per
// instruction and reason, (instructions, REASONS).
double simulate(const Instruction *code, int instructions, const Launch *launch, const Machine *m, double *busy,
                double *stalled) {
    int warps = launch->warps, slots = launch->resident * warps, live = 0, started = 0, size = (int)m->queue;
    Warp *all = calloc(slots, sizeof(Warp));
    Block *running = calloc(launch->resident, sizeof(Block));
    double *line = malloc((instructions / LINE + 2) * sizeof(double)), *owed = calloc(instructions, sizeof(double));
    double queue[SUB_CORES][QUEUE] = {{0}}, pipe[SUB_CORES][PIPES] = {{0}}, next[SUB_CORES] = {0}, own[SUB_CORES] = {0};
    double lsu = 0, l2 = 0, dram = 0, boxes = 0, end = 0, dispatched = 0, cold = 0, meeting = 0;
    double tags = 0, port = 0, drawn = 0, streamed = m->fetch - m->fetch_interval;
    int head[SUB_CORES] = {0}, last[SUB_CORES] = {-1, -1, -1, -1};
    for (int number = 0; number <= instructions / LINE + 1; ++number) line[number] = -1;
    for (int place = 0; place < launch->resident && started < launch->blocks; ++place, ++started) {
        dispatched = place * m->block_start;
        for (int number = 0; number < warps; ++number)
            begin(&all[place * warps + number], launch, place, number, dispatched);
        running[place].parts = malloc((launch->phases + 1) * sizeof(int));
        running[place].time = malloc((launch->phases + 1) * sizeof(double));
        renew(&running[place], launch, &all[place * warps]);
        live += running[place].left;
    }
    while (live) {
        int chosen = -1;
        double when = INFINITY;
        for (int number = 0; number < slots; ++number) {
            Warp *warp = &all[number];
            if (!warp->at || warp->phase >= 0) continue;
            const Instruction *op = &code[*warp->at];
            int core = warp->sub_core;
            double at = warp->ready;
            if (at > when) continue;
            if (op->pipe >= 0 && op->kind != PRODUCT) at = later(at, pipe[core][op->pipe]);
            if (op->kind >= SHARED && op->kind <= COPY)
                at = later(at, queue[core][(head[core] + QUEUE - size) % QUEUE]);
            at = later(at, next[core]);
            // Of several, the one that issued last goes on; else the oldest.
            int before = number == last[core] || (chosen != last[core] && chosen >= 0 && warp->born < all[chosen].born);
            if (at < when || before) when = at, chosen = number;
        }
        if (chosen < 0) break; // a phase that never completes: what was recorded is not all
        Warp *warp = &all[chosen];
        Block *block = &running[warp->block];
        Warp *beside = &all[warp->block * warps];
        int number = *warp->at, detail = *warp->detail, core = warp->sub_core;
        const Instruction *op = &code[number];
        double t = when, done = t, *reasons = stalled + (size_t)number * REASONS, ready = t + op->stall;
        int why = COUNT;
        reasons[ISSUED] += 1;
        credit(reasons, warp->reason, &warp->since, warp->ready);
        if (op->kind >= SHARED && op->kind <= COPY)
            credit(reasons, FULL_QUEUE, &warp->since,
                   later(queue[core][(head[core] + QUEUE - size) % QUEUE], pipe[core][op->pipe]));
        if (op->interval > 1 && op->kind != PRODUCT) // of the cycles of those in front, one each issued it
            credit(reasons, PIPE, &warp->since,
                   warp->since + (pipe[core][op->pipe] - warp->since) * (1 - 1 / op->interval));
        credit(reasons, NOT_SELECTED, &warp->since, t);
        next[core] = t + 1, last[core] = chosen, busy[0] += 1;
        if (op->pipe >= 0) {
            double starts = op->kind == PRODUCT ? later(t, pipe[core][op->pipe]) : t; // products of warp groups queue up
            pipe[core][op->pipe] = starts + op->interval, busy[5 + op->pipe] += op->interval;
        }
        if (op->kind >= SHARED && op->kind <= COPY) {
            int fresh = detail & 127, promoted = !(detail & 128), lines = detail >> 8 & 255, sectors = detail >> 16 & 255;
            double waves = wavefronts_of(op, detail, &owed[number], m->removed), to = t + m->to_pipe;
            double start = later(later(to, lsu), own[core]);
            lsu = later(to, lsu) + waves, busy[1] += waves;
            own[core] = later(to, own[core]) + m->core_wave * waves;
            if (op->kind == COPY || (op->kind == SHARED && !op->argument)) busy[5 + PIPES] += waves;
            double read = later(lsu, own[core] - 1);
            queue[core][head[core]] = start, head[core] = (head[core] + 1) % QUEUE;
            done = read - 1 + op->latency - m->to_pipe;
            if (op->kind != SHARED) {
                int asked = op->kind == STORE || op->past_l1 ? sectors : fresh;
                double bytes = asked * SECTOR;
                tags = later(to, tags) + lines;
                if (op->kind == STORE) {
                    double cost = bytes / m->l2_written, apart = lines * m->line_written;
                    double share = (bytes / m->dram_bytes + m->apart_written * (apart - bytes / m->dram_bytes)) * m->written;
                    port = later(port, read) + later(bytes / m->store_bytes, lines * m->store_line);
                    double arrives = later(port, l2);
                    done = l2 = arrives + cost, busy[2] += bytes / m->l2_bytes;
                    dram = later(arrives, dram) + share, busy[3] += share;
                } else if (!asked) done = read + m->l1;
                else { // looks up its lines while accesses before it still take their wavefronts
                    double arrives = later(tags, l2), share = bytes * m->of_dram / m->dram_read;
                    l2 = arrives + bytes / m->l2_bytes, busy[2] += bytes / m->l2_bytes;
                    done = later(l2 + m->l2, read);
                    dram = later(arrives, dram) + share, busy[3] += share;
                    if (share > 0) {
                        done = later(done, dram + m->l2);
                        cold += promoted ? 0 : m->cold; // else it comes with its neighbour
                        if (!promoted && cold >= 1) {
                            cold -= 1, drawn = fmod(drawn + GOLDEN, 1);
                            done = later(done, dram + m->dram + late(m, lines * m->of_dram, drawn));
                        }
                    }
                }
            }
            if (op->kind == COPY) warp->copies = later(warp->copies, done);
            // Data that is stored is read when the pipe takes it, addresses before they wait for it.
            double taken = op->kind == SHARED || op->kind == STORE ? start : to;
            release(warp, op->frees, taken + m->store_read, op->kind != SHARED);
            end = later(end, done);
            if (op->kind == COPY || op->kind == STORE) done = read + m->store_read; // what a scoreboard waits for
            release(warp, op->sets, done, op->kind != SHARED);
        } else {
            if (op->kind == VARIABLE || op->kind == WAIT) done = t + op->latency;
            if (op->kind == PRODUCT) done = pipe[core][op->pipe] + op->latency, warp->product = later(warp->product, done);
            if (op->kind == BOX) {
                double arrives = later(later(t, l2), boxes), share = op->bytes * m->of_dram / m->dram_bytes;
                boxes = later(t, boxes) + op->wavefronts * m->box_row, busy[4] += op->wavefronts * m->box_row;
                l2 = arrives + op->bytes / m->l2_bytes, busy[2] += op->bytes / m->l2_bytes;
                dram = later(arrives, dram) + share, busy[3] += share;
                done = later(l2, boxes) + m->box;
                if (share > 0) done = later(done, dram + m->box);
                if (share > 0 && m->cold > 0.5) {
                    drawn = fmod(drawn + GOLDEN, 1);
                    double lateness = late(m, op->bytes / (4 * SECTOR) * m->of_dram, drawn);
                    done = later(done, dram + m->box + m->dram - m->l2 + lateness);
                }
                signal(block, detail - 1, done, beside, warps, 0);
            }
            if (op->kind == BOX_STORE) {
                double arrives = later(t, l2), share = op->bytes * m->written / m->dram_bytes;
                l2 = arrives + op->bytes / m->l2_bytes, busy[2] += op->bytes / m->l2_bytes;
                dram = later(arrives, dram) + share, busy[3] += share;
            }
            if (op->kind == COMMIT) warp->group[warp->groups++ % GROUPS] = warp->copies, done = t + 8;
            if (op->kind == ARRIVE) signal(block, detail - 1, t + op->latency, beside, warps, 0);
            if (op->kind == COPY_ARRIVE)
                signal(block, detail - 1, later(t, warp->copies) + op->latency, beside, warps, 0);
            if (op->kind == BARRIER) {
                meeting = later(meeting, t) + m->barrier_warp; // warps arrive one after the other
                signal(block, detail - 1, meeting, beside, warps, m->barrier);
                why = BARRIER_WAIT;
                if (detail > 0 && block->parts[detail - 1] > 0) warp->phase = detail - 1;
                else if (detail > 0) ready = later(ready, block->time[detail - 1] + m->barrier);
            }
            if (op->kind == WAIT) warp->awaited = detail - 1, warp->tested = op->sets;
            if (op->kind == GROUP_WAIT) {
                int oldest = warp->groups - op->argument - 1;
                if (oldest >= 0 && oldest > warp->groups - GROUPS)
                    ready = later(ready, warp->group[oldest % GROUPS]), why = LONG;
            }
            release(warp, op->sets, later(done, ready), op->kind == WAIT);
            release(warp, op->frees, t + m->store_read, 0);
        }
        end = later(end, done);
        warp->since = t + op->stall;
        ++warp->detail;
        if (++warp->at == warp->end) {
            warp->at = NULL;
            --live;
            end = later(end, t + op->stall);
            if (--block->left == 0 && started < launch->blocks) {
                ++started;
                dispatched = later(dispatched + m->block_start, t + m->block_start);
                for (int other = 0; other < warps; ++other)
                    begin(&beside[other], launch, warp->block, other, dispatched);
                renew(block, launch, beside);
                live += block->left;
            }
            continue;
        }
        const Instruction *following = &code[*warp->at];
        stalled[(size_t)*warp->at * REASONS + COUNT] += op->stall - 1; // as ncu: the instruction that waits
        int place = *warp->at / LINE;
        if (*warp->at != number + 1) ready += m->branch;
        for (int board = 0; board < SCOREBOARDS; ++board)
            if (following->waits >> board & 1 && warp->scoreboard[board] > ready)
                ready = warp->scoreboard[board], why = warp->slow >> board & 1 ? LONG : SHORT;
        if (warp->awaited >= 0 && (warp->tested < 0 || following->waits >> warp->tested & 1)) {
            why = LONG;
            if (block->parts[warp->awaited] > 0) warp->phase = warp->awaited;
            else ready = later(ready, block->time[warp->awaited]);
            warp->awaited = -1;
        }
        if (following->kind == PRODUCT_WAIT && warp->product > ready) ready = warp->product, why = BARRIER_WAIT;
        int most = instructions / LINE, furthest = place + (int)m->fetch_ahead;
        if (furthest > most) furthest = most;
        int far = place - number / LINE;
        double asked = ready + m->jump + (far > 64 ? (m->far_jump - m->jump) * (far < 512 ? (far - 64) / 448. : 1) : 0);
        if (far > 1 && (line[place] < 0 || line[place] > asked)) { // a jump ahead: the stream of code goes on from there
            streamed = asked - m->fetch_interval;
            for (int ahead = place; ahead <= most && line[ahead] > asked; ++ahead) line[ahead] = -1;
        }
        for (int ahead = place; line[furthest] < 0 && ahead <= furthest; ++ahead) // lines that the SM does not have yet
            if (line[ahead] < 0) line[ahead] = streamed = later(ready, streamed + m->fetch_interval);
        if (line[place] > ready) ready = line[place], why = FETCH;
        warp->ready = ready, warp->reason = warp->phase < 0 ? why : op->kind == BARRIER ? BARRIER_WAIT : LONG;
    }
    for (int place = 0; place < launch->resident; ++place) free(running[place].parts), free(running[place].time);
    free(all), free(running), free(line), free(owed);
    return live ? -1 : later(end, later(lsu, dram));
}

// The program: simulates what the first file holds, and writes what `simulate` returns and fills to the second.

enum { UNITS = 16 };

static void *array(size_t count, size_t bytes, FILE *file) {
    void *values = calloc(count + 1, bytes);
    if (!values || fread(values, bytes, count, file) != count) exit(2);
    return values;
}

int main(int count, char **names) {
    FILE *from = count > 2 ? fopen(names[1], "rb") : NULL;
    if (!from) return 2;
    int *sizes = array(8, sizeof(int), from), instructions = sizes[2], executed = sizes[3];
    if (sizes[0] != sizeof(Instruction) || sizes[1] != sizeof(Machine)) return 3; // another version wrote it
    Launch launch = {.phases = sizes[4], .warps = sizes[5], .blocks = sizes[6], .resident = sizes[7]};
    Instruction *code = array(instructions, sizeof(Instruction), from);
    Machine *machine = array(1, sizeof(Machine), from);
    launch.numbers = array(executed, sizeof(int), from), launch.details = array(executed, sizeof(int), from);
    launch.starts = array(launch.warps + 1, sizeof(int), from), launch.parts = array(launch.phases, sizeof(int), from);
    double busy[UNITS] = {0}, *stalled = calloc((size_t)instructions * REASONS + 1, sizeof(double));
    double cycles = simulate(code, instructions, &launch, machine, busy, stalled);
    FILE *to = fopen(names[2], "wb");
    if (!to) return 2;
    fwrite(&cycles, sizeof cycles, 1, to), fwrite(busy, sizeof busy, 1, to);
    fwrite(stalled, sizeof(double), (size_t)instructions * REASONS, to);
    return fclose(to) ? 2 : 0;
}
