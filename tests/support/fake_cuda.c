/* The driver of fake_cuda.py: GPUS of the name NAME, as far as CUDA_VISIBLE_DEVICES lets them be seen. */
#include <stdlib.h>
#include <string.h>

static const char* visible(void) { return getenv("CUDA_VISIBLE_DEVICES"); }
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int* count) {
    const char* list = visible();
    *count = GPUS;
    if (list)
        for (*count = *list != 0; *list; ++list) *count += *list == ',';
    return 0;
}
int cuDeviceGetName(char* text, int size, int device) { strncpy(text, NAME, size); return 0; }
int cuDeviceGetUuid(unsigned char* uuid, int device) { /* the last digit is the GPU's number: GPU-000…0N */
    const char* list = visible();
    int number = device;
    memset(uuid, 0, 16);
    if (list) {
        for (; device; ++list) device -= *list == ',';
        const char* end = strchr(list, ',');
        number = (end ? end[-1] : list[strlen(list) - 1]) - '0';
    }
    uuid[15] = (unsigned char)number;
    return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) { return cuDeviceGetUuid(uuid, device); }
int cuDeviceGetAttribute(int* value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
