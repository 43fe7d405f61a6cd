// What every pair needs: random inputs, a launch of both kernels, a check against a reference, and their times.
//
// A pair is one kernel with two layouts of its shared memory: <false> has conflicts, <true> has fewer or none. Its
// first parameter is the output, which is poisoned before each check.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace pairs {

constexpr int kBatch = 20;   // launches between two events: one alone is too short to time
constexpr int kBatches = 50; // of which the median counts
constexpr int kWarmUp = 50;

inline void must(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
}

struct Shape {
    dim3 grid, block;
};

struct Reference {
    std::vector<double> values;
    double tolerance; // relative to the largest value
};

class Kit {
  public:
    Kit(unsigned seed, bool once, std::vector<std::string> names) : random_(seed), once_(once), names_(names) {}

    // Return whether the command line asks for this pair; without names, it asks for all.
    bool wants(const std::string &name) const {
        return names_.empty() || std::find(names_.begin(), names_.end(), name) != names_.end();
    }

    std::vector<float> uniform(size_t count) {
        std::uniform_real_distribution<float> values(-1, 1);
        return filled<float>(count, values);
    }

    std::vector<int> integers(size_t count, int below) {
        std::uniform_int_distribution<int> values(0, below - 1);
        return filled<int>(count, values);
    }

    std::vector<int> permutation(int count) {
        std::vector<int> order(count);
        for (int i = 0; i < count; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random_);
        return order;
    }

    // Return a copy on the device, which lives as long as the program.
    template <typename T> const T *device(const std::vector<T> &host) {
        T *copy = nullptr;
        must(cudaMalloc(&copy, host.size() * sizeof(T)), "cudaMalloc");
        must(cudaMemcpy(copy, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
        return copy;
    }

    // Check and time both kernels; print one line of JSON.
    template <typename T, typename... Parameters, typename... Arguments>
    void pair(const char *name, void (*before)(T *, Parameters...), void (*after)(T *, Parameters...), Shape shape,
              const Reference &reference, Arguments... arguments) {
        T *out = nullptr;
        must(cudaMalloc(&out, reference.values.size() * sizeof(T)), "cudaMalloc");
        double errors[2], times[2] = {0, 0};
        int number = 0;
        for (auto kernel : {before, after}) {
            auto launch = [&] { run(kernel, shape, out, Parameters(arguments)...); };
            must(cudaMemset(out, 0xff, reference.values.size() * sizeof(T)), "cudaMemset");
            launch();
            errors[number] = error(out, reference);
            if (!once_) times[number] = microseconds(launch);
            ++number;
        }
        cudaFree(out);
        bool right = errors[0] <= reference.tolerance && errors[1] <= reference.tolerance; // false for NaN
        wrong_ += !right;
        std::printf("{\"pair\": \"%s\", \"right\": %s, \"errors\": [%.3g, %.3g], \"us\": [%.3f, %.3f]}\n", name,
                    right ? "true" : "false", errors[0], errors[1], times[0], times[1]);
    }

    int wrong() const { return wrong_; }

  private:
    template <typename T, typename Distribution> std::vector<T> filled(size_t count, Distribution &values) {
        std::vector<T> host(count);
        for (T &value : host) value = values(random_);
        return host;
    }

    template <typename T, typename... Parameters>
    static void run(void (*kernel)(T *, Parameters...), Shape shape, T *out, Parameters... parameters) {
        cudaLaunchConfig_t config = {};
        config.gridDim = shape.grid;
        config.blockDim = shape.block;
        must(cudaLaunchKernelEx(&config, kernel, out, parameters...), "launch");
    }

    // Return the largest difference, relative to the largest value; infinite if an element was left poisoned.
    template <typename T> static double error(const T *out, const Reference &reference) {
        std::vector<T> host(reference.values.size());
        must(cudaMemcpy(host.data(), out, host.size() * sizeof(T), cudaMemcpyDeviceToHost), "kernel");
        double worst = 0, scale = 0;
        for (size_t i = 0; i < host.size(); ++i) {
            double difference = std::fabs(double(host[i]) - reference.values[i]);
            worst = difference <= worst ? worst : std::isnan(difference) ? INFINITY : difference;
            scale = std::max(scale, std::fabs(reference.values[i]));
        }
        return scale > 0 ? worst / scale : worst;
    }

    template <typename Launch> static double microseconds(Launch launch) {
        cudaEvent_t start, stop;
        must(cudaEventCreate(&start), "event");
        must(cudaEventCreate(&stop), "event");
        for (int i = 0; i < kWarmUp; ++i) launch();
        std::vector<float> taken(kBatches);
        for (float &ms : taken) {
            must(cudaEventRecord(start), "event");
            for (int i = 0; i < kBatch; ++i) launch();
            must(cudaEventRecord(stop), "event");
            must(cudaEventSynchronize(stop), "event");
            must(cudaEventElapsedTime(&ms, start, stop), "event");
        }
        std::nth_element(taken.begin(), taken.begin() + kBatches / 2, taken.end());
        return 1000.0 * taken[kBatches / 2] / kBatch;
    }

    std::mt19937 random_;
    bool once_;
    std::vector<std::string> names_;
    int wrong_ = 0;
};

// The index of an element, with one word skipped after every 32 if fixed: strides of powers of two then cover all banks.
template <bool Fixed> __device__ __forceinline__ int skewed(int index) { return Fixed ? index + index / 32 : index; }

} // namespace pairs
