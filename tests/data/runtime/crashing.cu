// Ends as a program that crashes does.
__global__ void f() {}
int main() {
    f<<<1, 1>>>();
    __builtin_trap();
}
